#pragma once

#include <string>
#include <vector>

#include "shoal/envs/atari.h"
#include "shoal/envs/env.h"

namespace shoal {

// What an environment's id leaves open.
struct EnvOptions {
  AtariOptions atari;
};

// The environment of that name: "CartPole-v1", "ALE/Pong-v5", ... Throws Error for an unknown name,
// with the nearest known one, and whatever the environment's own factory throws.
EnvFactory make_env_factory(const std::string& id, const EnvOptions& options = {});

// Every id that make_env_factory knows here.
std::vector<std::string> env_ids();

}  // namespace shoal
