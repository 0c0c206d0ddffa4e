#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "shoal/agents/agent.h"
#include "shoal/core/spec.h"
#include "src/agents/device_copy.h"

namespace shoal {

// The number of choices of a single discrete action. Throws Error for other action spaces.
std::int64_t valued_actions(const EnvSpec& spec);

// Agent::policy_outputs() for action values [N, actions].
PolicyOut greedy_outputs(const at::Tensor& values, const NamedTensors& mask);

// A random legal action with probability epsilon, and the action of the highest value otherwise.
class EpsilonGreedy {
 public:
  EpsilonGreedy(std::int64_t actions, std::int64_t epsilons)
      : actions_(actions), epsilon_(at::ones({epsilons})) {}

  // [epsilons] float32, on the CPU. Environment i has epsilon i, modulo their number: an evaluation
  // may have more environments than the training had.
  at::Tensor epsilon() const { return epsilon_; }

  // values: [N, actions]; action: [N] int64.
  void choose(const ActIn& in, const at::Tensor& values, at::Tensor& action);
  // Call in Agent::before_rollout().
  void before_rollout(at::Device device) { there_.of(epsilon_, device); }
  // The same on the CPU, row by row; the columns after the `actions` values are ignored.
  void choose_by_rows(const ActIn& in, const at::Tensor& values, at::Tensor& action) const;

 private:
  float epsilon_of(std::int64_t env) const {
    return epsilon_.const_data_ptr<float>()[env % epsilon_.size(0)];
  }
  std::int64_t any(const bool* legal, float u) const;
  std::int64_t best(const float* value, const bool* legal) const;

  std::int64_t actions_;
  at::Tensor epsilon_;
  DeviceCopy there_;  // of epsilon_
};

}  // namespace shoal
