#pragma once

#include <cstdint>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Each function wraps the environments of a factory; wrappers nest:
//
//   auto make_env = with_time_limit(with_action_repeat(make_pendulum(), 2), 100);
//
// All throw Error at once for invalid options. Saving and rendering work if the wrapped environment
// supports them. Wrappers that change rewards report the original reward as the info "score", so
// that an episode's score does not depend on them.

// Truncates an episode after `steps` steps.
EnvFactory with_time_limit(EnvFactory make_env, std::int64_t steps);

// Repeats every action `times` times or until the episode ends. Rewards are summed; infos are
// reduced as over an episode.
EnvFactory with_action_repeat(EnvFactory make_env, int times);

// Stacks the `frames` newest observations; each is stored once. Throws Error if they are already
// stacked.
EnvFactory with_stack(EnvFactory make_env, int frames);

// Keeps these elements of a vector observation, in this order; the others are hidden from the
// agent, which makes the task partially observable. Throws Error for an empty list; constructing an
// environment throws Error for an observation that is no vector, or an element that it does not
// have.
EnvFactory with_observation_elements(EnvFactory make_env, std::vector<std::int64_t> elements);

EnvFactory with_clipped_reward(EnvFactory make_env, double low, double high);
EnvFactory with_scaled_reward(EnvFactory make_env, double scale);

// Divides rewards by the running standard deviation of the environment's discounted return, as
// Gymnasium's NormalizeReward does. Every environment has its own (Env::statistics()).
EnvFactory with_normalized_reward(EnvFactory make_env, double discount = 0.99,
                                  double epsilon = 1e-8);

// Reports the reward as the info "score", for a custom wrapper that changes rewards. Does nothing
// if there is a "score" already.
EnvFactory with_score(EnvFactory make_env);

}  // namespace shoal
