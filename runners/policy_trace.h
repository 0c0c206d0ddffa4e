#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/core/spec.h"

namespace shoal {

// A policy as exports write it: a function of tensors with names. Inputs: the fields of the
// observation (stacked ones [N, stack, ...], oldest first), the mask if there is one, and for a
// policy with memory its state, is_first, the parts of the previous action and the previous reward.
// A sampled policy also has the noise of Agent::policy_outputs() as its last input.
class ExportedPolicy {
 public:
  ExportedPolicy(Agent& agent, const EnvSpec& env) : agent_(agent), env_(env) {}

  struct Outputs {
    NamedTensors action, value, distribution;
    NamedTensors sample, log_prob;  // of a sampled policy
    NamedTensors state;             // next_NAME
    NamedTensors all() const;       // in this order
  };

  bool can_sample() const { return agent_.policy_noise() > 0; }
  // Random inputs for n observations.
  NamedTensors random_inputs(std::int64_t n, bool sampled) const;
  Outputs operator()(const NamedTensors& inputs, bool sampled) const;

  // A module with the agent's parameters as attributes. Without the tensors of the normalization,
  // which graphs hold as constants, and those of the target networks.
  torch::jit::Module attributes() const;
  // Adds the function to such a module as a method. Throws Error if its operations depend on values
  // or on the number of observations.
  void add_trace(torch::jit::Module& module, const std::string& method, bool sampled) const;
  // Replaces the attributes by copies, which need no gradients.
  void detach(torch::jit::Module& module) const;

  const EnvSpec& env() const { return env_; }

 private:
  void require_equal(torch::jit::Module& module, const std::string& method, bool sampled) const;

  Agent& agent_;
  const EnvSpec& env_;
};

// A valid name of a TorchScript attribute or variable.
std::string identifier(std::string name);

}  // namespace shoal
