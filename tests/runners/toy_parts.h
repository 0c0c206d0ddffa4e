#pragma once

#include <ATen/ATen.h>

#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/algos/algo.h"
#include "shoal/envs/env.h"

namespace shoal {

// Environment b has episodes of b + 1 steps. Each step scores 1, and the last step of episode n
// another 100 n.
class StaircaseEnv : public Env {
 public:
  explicit StaircaseEnv(std::int64_t index) : index_(index) {}

  const EnvSpec& spec() const override {
    static const EnvSpec kSpec{.id = "Staircase",
                               .observation = ArraySpec{.shape = {1}},
                               .action = ActionSpec::discrete(2)};
    return kSpec;
  }
  void reset(std::optional<std::uint64_t>, StepOut out) override {
    step_ = 0;
    ++episode_;
    *out.observation.as<float>() = 0;
  }
  StepResult step(ArraysIn, StepOut out) override {
    *out.observation.as<float>() = static_cast<float>(++step_);
    const bool last = step_ > index_;
    return {.reward = 1 + (last ? 100.0F * static_cast<float>(episode_) : 0), .terminated = last};
  }

 private:
  std::int64_t index_, step_ = 0, episode_ = -1;
};

inline std::unique_ptr<Env> make_staircase(const EnvContext& context) {
  return std::make_unique<StaircaseEnv>(context.index);
}

// Always chooses action 0; has one parameter, and counts the notifications of its changes.
class IdleAgent : public Agent {
 public:
  const AgentSpec& spec() const override { return spec_; }
  void act(const ActIn&, ActOut& out) override { out.action[0].zero_(); }
  void value(const ActIn&, at::Tensor& value) override { value.zero_(); }
  NamedTensors parameters() override { return {{"weight", weight}}; }
  void to(at::Device) override {}
  at::Device device() const override { return at::kCPU; }

  at::Tensor weight = at::arange(6, at::kFloat).view({2, 3});

 private:
  AgentSpec spec_;
};

class IdleAlgo : public OnPolicyAlgo {
 public:
  Metrics update(const Samples&, const Progress& progress) override {
    step.add_(1);
    return {{"remaining", progress.remaining()}};
  }
  NamedTensors state() override { return {{"step", step}}; }

  at::Tensor step = at::zeros({1}, at::kLong);
};

}  // namespace shoal
