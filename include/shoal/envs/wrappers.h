#pragma once

#include <cstdint>
#include <string>
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

// Keeps these fields of the observation, in the environment's order; "camera" also keeps
// "camera/left" and so on. Constructing an environment throws Error for a name that it does not
// have.
EnvFactory with_observation_fields(EnvFactory make_env, std::vector<std::string> names);

// A channels-last picture [H, W, C], or several of them [S, H, W, C], becomes [C, H, W], or
// [S * C, H, W], as networks read pictures. H and W are at least 7, and C is at most 16 and less
// than they, or, of one picture, H = W and C differs. EnvSpec::notices tells it. Environments
// without such a field are not wrapped.
EnvFactory with_channels_first(EnvFactory make_env);

// Pictures of bytes, with sides of at least 7, are shrunk to height x width pixels by averaging the
// area under each new pixel, as OpenCV's INTER_AREA and Gymnasium's ResizeObservation do.
// Constructing an environment throws Error if it has no such picture, or one that would grow.
EnvFactory with_resized_pictures(EnvFactory make_env, std::int64_t height, std::int64_t width);

// Pictures of bytes in three colours [3, H, W] become grey [H, W], with the weights of Gymnasium's
// GrayscaleObservation. Constructing an environment throws Error if it has no such picture.
EnvFactory with_grayscale(EnvFactory make_env);

// Every field with more than one axis becomes a vector, which an MLP reads.
EnvFactory with_flat_observations(EnvFactory make_env);

// Reduces an info of one number over each episode, as `info` says. Constructing an environment
// throws Error if it has no info of that name.
EnvFactory with_reduced_info(EnvFactory make_env, const InfoSpec& info);

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
