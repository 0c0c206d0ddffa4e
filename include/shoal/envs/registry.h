#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/envs/atari.h"
#include "shoal/envs/env.h"
#include "shoal/envs/gymnasium.h"

namespace shoal {

// Options of an environment beside its id.
struct EnvOptions {
  AtariOptions atari = {};
  GymnasiumOptions gymnasium = {};
  // Options of wrappers (wrappers.h), the innermost first.
  std::vector<std::string> observation = {};  // fields to keep; empty: all
  bool grayscale = false;                     // pictures in grey instead of colour
  std::vector<std::int64_t> resize = {};      // height and width of pictures, or one side; empty:
                                              // their own
  bool flatten = false;                       // pictures and tables as vectors
  std::vector<std::int64_t> observation_indices = {};  // indices of the elements of a vector
                                                       // observation to keep; empty: all
  std::int64_t stack = 1;                              // newest observations in one
  // Infos to reduce to a number per episode: "is_success", of the last step, or "fuel:sum", ":max".
  std::vector<std::string> info = {};
  int action_repeat = 1;
  std::int64_t time_limit = 0;  // agent steps, beside the environment's own limit; 0: that only
  double reward_scale = 1;
  bool normalize_reward = false;
  double reward_clip = 0;  // rewards are clipped to [-reward_clip, reward_clip]; 0: no clipping
};

// The factory of an environment, whose channels-last pictures are transposed (wrappers.h):
// "CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5", "gymnasium:Taxi-v4", "pettingzoo:my_game", ...
// Throws Error for an unknown id, with the nearest known one, and rethrows errors of the
// environment's own factory.
EnvFactory make_env_factory(const std::string& id, const EnvOptions& options = {});

// The info that an entry of EnvOptions::info names.
InfoSpec parse_info(const std::string& text);

// Registers a custom environment; configuration files and the command line then accept its id. Must
// not run while another thread looks up ids. Throws Error if the id is taken.
void register_env(const std::string& id, EnvFactory make_env);

// All ids that make_env_factory() accepts here, without Gymnasium's.
std::vector<std::string> env_ids();

}  // namespace shoal
