#pragma once

#include <filesystem>
#include <string>

#include "shoal/agents/agent.h"
#include "shoal/core/spec.h"
#include "shoal/runners/config.h"

namespace shoal {

// Writes the agent's greedy policy as TorchScript, for torch.jit.load() in Python and
// torch::jit::load() in C++, without Shoal:
//
//   action, value = torch.jit.load("policy.pt")(observation)
//
// Inputs: the fields of the observation, in their order, [N, ...] for any N (stacked fields [N,
// stack, ...], oldest first), then the action mask if the environment has one. Outputs: the parts
// of the action, in their order, and the value. The policy includes the normalization of
// observations. The agent must be on the CPU.
//
// Throws Error if the agent's model cannot be traced: its operations must not depend on values or
// on the number of observations. The export checks this with random observations. Writing throws as
// FileReplacement does.
void export_policy(Agent& agent, const EnvSpec& env, const std::filesystem::path& file);

// JSON for callers of the policy: inputs and outputs with types, shapes and bounds, and the
// settings of the preprocessing of observations.
std::string describe_policy(const Config& config, const EnvSpec& env);

}  // namespace shoal
