#pragma once

#include <filesystem>
#include <string>

#include "shoal/agents/agent.h"
#include "shoal/core/spec.h"
#include "shoal/runners/config.h"

namespace shoal {

// Writes the agent's greedy policy as TorchScript, for torch.jit.load() in Python and
// torch::jit::load() in C++, with nothing of Shoal:
//
//   action, value = torch.jit.load("policy.pt")(observation)
//
// Its inputs are the fields of the observation, in their order, [N, ...] for any N, stacked ones as
// [N, stack, ...], oldest first; and, if the environment has an action mask, that mask. It gives
// the parts of the action, in their order, and the value. What normalizes observations is part of
// it. The agent must be on the CPU.
//
// Throws Error if the agent's model cannot be traced: it must be made of tensor operations that do
// not depend on the values or the number of observations. This is tried, on random ones. Writing
// throws as FileReplacement does.
void export_policy(Agent& agent, const EnvSpec& env, const std::filesystem::path& file);

// What a caller of it must know, as JSON: inputs and outputs with types, shapes and bounds, and the
// settings that say how observations are made.
std::string describe_policy(const Config& config, const EnvSpec& env);

}  // namespace shoal
