#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/envs/atari.h"
#include "shoal/envs/env.h"
#include "shoal/envs/gymnasium.h"

namespace shoal {

// What an environment's id leaves open.
struct EnvOptions {
  AtariOptions atari;
  GymnasiumOptions gymnasium;
  // Wrappers (see wrappers.h), the first one innermost.
  std::vector<std::int64_t> observation_indices = {};  // numbers of a vector to see; empty: all
  int action_repeat = 1;
  std::int64_t time_limit = 0;  // agent steps; 0: the environment's own
  double reward_scale = 1;
  bool normalize_reward = false;
  double reward_clip = 0;  // rewards are cut to [-reward_clip, reward_clip]; 0: not
};

// The environment of that name: "CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5",
// "gymnasium:Taxi-v3",
// ... Throws Error for an unknown name, with the nearest known one, and whatever the environment's
// own factory throws.
EnvFactory make_env_factory(const std::string& id, const EnvOptions& options = {});

// Makes an environment of your own known by name, in files and on the command line, too. Not while
// another thread looks names up. Throws Error if the name is taken.
void register_env(const std::string& id, EnvFactory make_env);

// Every id that make_env_factory knows here, but those of Gymnasium.
std::vector<std::string> env_ids();

}  // namespace shoal
