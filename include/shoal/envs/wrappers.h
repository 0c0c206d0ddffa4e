#pragma once

#include <cstdint>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Each makes of a factory one whose environments behave a little differently; they nest:
//
//   auto make_env = with_time_limit(with_action_repeat(make_pendulum(), 2), 100);
//
// All throw Error at once for options that make no sense. What an environment can save and render,
// a wrapped one can. Those that change rewards report the original ones as the info "score", so
// that the return of an episode means the same with and without them.

// Truncates an episode after `steps` steps, if nothing else ends it before.
EnvFactory with_time_limit(EnvFactory make_env, std::int64_t steps);

// Takes every action `times` times, or until the episode ends, and adds up the rewards, and the
// infos as they reduce over an episode.
EnvFactory with_action_repeat(EnvFactory make_env, int times);

// Observations are the `frames` newest ones, stored once each. Error if they are stacked already.
EnvFactory with_stack(EnvFactory make_env, int frames);

// The agent sees these numbers of the observation, which is a vector, in this order; the others are
// hidden from it, and what it needs of them it must remember. Error for none, for an observation of
// another kind, or numbers it does not have; these two when an environment is made.
EnvFactory with_observation_elements(EnvFactory make_env, std::vector<std::int64_t> elements);

EnvFactory with_clipped_reward(EnvFactory make_env, double low, double high);
EnvFactory with_scaled_reward(EnvFactory make_env, double scale);

// Divides by the standard deviation so far of the environment's discounted sum of rewards, as
// Gymnasium's NormalizeReward does. Every environment has its own
// (Env::statistics()).
EnvFactory with_normalized_reward(EnvFactory make_env, double discount = 0.99,
                                  double epsilon = 1e-8);

// Reports the rewards as the info "score", for a wrapper of your own that changes them. Nothing to
// do where there is one.
EnvFactory with_score(EnvFactory make_env);

}  // namespace shoal
