#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "shoal/agents/agent.h"
#include "shoal/core/spec.h"
#include "shoal/runners/config.h"

namespace shoal {

// Writes the agent's policy for programs without Shoal: as ONNX if the suffix of `file` is .onnx,
// otherwise as TorchScript, for torch.jit.load() in Python and torch::jit::load() in C++:
//
//   policy = torch.jit.load("policy.pt")
//   action, value = policy(observation)                    # the most likely action
//   logits = policy.distribution(observation)              # or mean, std of a Gaussian
//   action, log_prob = policy.sample(observation, seed)    # drawn
//
// Inputs: the fields of the observation, in their order, [N, ...] for any N or without N for one
// observation (stacked fields [N, stack, ...], oldest first), then the action mask if the
// environment has one. Outputs: the parts of the action, in their order, and the value. Those of
// the distribution are as in PolicyOut. A policy with memory also has its state, `is_first` and the
// previous action and reward as inputs, and the next state as its last output. The policy includes
// the normalization of observations. The agent must be on the CPU.
//
// An ONNX model has all outputs at once, named as in describe_policy(): the distribution, and the
// sample that its optional input `noise` draws, with its log-probability. N is any number.
//
// Throws Error if the agent's model cannot be traced: its operations must not depend on values or
// on the number of observations, and ONNX must have them. The export checks the trace with random
// observations. Writing throws as FileReplacement does.
void export_policy(Agent& agent, const EnvSpec& env, const std::filesystem::path& file);

// Writes the agent's parameters, but for target networks, in the format of safetensors, with the
// settings as metadata. half: those of networks as float16, rounded; throws Error if one is beyond
// 65504. Writing throws as FileReplacement does.
void export_weights(Agent& agent, const Config& config, const std::filesystem::path& file,
                    bool half = false);

// The settings that such a file holds. Throws Error if it cannot be read, is damaged, or has none.
Config weights_config(const std::filesystem::path& file);

// Copies the weights of such a file to the agent: float16 also to float32. Target networks that it
// does not hold become copies of the networks. The agent's own parameters `keep` stay as they are.
// Throws Error, before any copy, if the file cannot be read or is damaged, has other parameters,
// types or shapes than the agent, or a number that is not finite.
void import_weights(Agent& agent, const std::filesystem::path& file,
                    const std::set<std::string>& keep = {});

// JSON for callers of the policy: inputs and outputs with types, shapes and bounds, the tensors of
// the distribution, the numbers of noise for one sample, and the settings of the preprocessing of
// observations. The agent must be on the CPU.
std::string describe_policy(Agent& agent, const Config& config, const EnvSpec& env);

}  // namespace shoal
