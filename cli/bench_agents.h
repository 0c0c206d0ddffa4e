#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "samplers/partition.h"
#include "shoal/agents/agent.h"

namespace shoal::cli {

// [T, B, ...], uniform over the valid actions; unbounded components are in [-1, 1].
at::Tensor random_actions(const ActionSpec& spec, std::int64_t T, std::int64_t B);

// Takes its actions from a table of random actions: an action costs a copy of a few bytes.
class TableAgent : public Agent {
 public:
  TableAgent(const EnvSpec& spec, std::int64_t envs);
  const AgentSpec& spec() const override { return spec_; }
  void act(const ActIn& in, ActOut& out) override;
  void value(const ActIn&, at::Tensor& value) override { value.zero_(); }
  NamedTensors parameters() override { return {}; }
  void to(at::Device) override {}
  at::Device device() const override { return at::kCPU; }

 private:
  AgentSpec spec_;
  NamedTensors table_;  // [rows, envs, ...]
};

// The observations of some environments of a rollout, step by step, for acting without
// environments. The cost of acting may depend on the sequence of observations.
struct ActingReplay {
  std::vector<Observations> observations;  // one element per step
  ActIn in;                                // everything except the observation
  ActOut out;
};
ActingReplay acting_replay(const Samples& samples, const Range& envs, const EnvSpec& env,
                           const Agent& agent);

}  // namespace shoal::cli
