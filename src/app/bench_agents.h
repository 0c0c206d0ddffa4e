#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "shoal/agents/agent.h"

namespace shoal::app {

// Chooses uniformly from a table drawn beforehand: what it costs is a copy of a few bytes.
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
  at::Tensor table_;  // [rows, envs]
};

// Inputs and outputs of the shapes a sampler hands to the agent, with made-up observations.
struct ActingShapes {
  ActIn in;
  ActOut out;
};
ActingShapes acting_shapes(const EnvSpec& env, const Agent& agent, std::int64_t envs);

}  // namespace shoal::app
