#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "shoal/runners/config.h"

namespace shoal {

inline constexpr std::array kOffPolicyAlgos = {"dqn", "r2d1", "ddpg", "td3", "sac"};

// The agent of such an algorithm, on the CPU.
std::unique_ptr<Agent> make_off_policy_agent(const Config& config, const EnvSpec& env);
// Steps that one update of it draws.
std::int64_t off_policy_batch(const Config& config);

}  // namespace shoal
