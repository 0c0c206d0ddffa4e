#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/envs/env.h"

namespace shoal::testing {

// A bad number, or a bad mask, of one environment.
struct BadData {
  enum Where : std::uint8_t {
    kNowhere,
    kObservation,
    kDouble,            // the float64 field of the observation
    kAfterLostLife,     // the observation of a terminated step in a game that continues
    kFinalObservation,  // of an episode
    kFirstObservation,  // of the next episode
    kReward,
    kScore,
    kMask,
  };
  Where where = kNowhere;
  float number = std::numeric_limits<float>::quiet_NaN();
  std::int64_t index = 5;  // index of the environment
  std::int64_t step = 9;   // the environment's step, counted from 1 over all episodes
};

// Episodes of 6 steps; actions are masked.
class BadEnv : public Env {
 public:
  static constexpr std::int64_t kLength = 6;
  BadEnv(const EnvContext& context, const BadData& bad)
      : bad_(context.index == bad.index ? bad : BadData{}) {}

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t>, StepOut out) override {
    write(out);
    if (bad_.where == BadData::kFirstObservation && steps_ == bad_.step) spoil<float>(out, 0, 1);
  }
  StepResult step(ArraysIn, StepOut out) override {
    ++steps_;
    write(out);
    *out.info.as<float>() = 1;
    StepResult result{.reward = 1, .terminated = steps_ % kLength == 0};
    if (steps_ == bad_.step) spoil(out, result);
    return result;
  }

 private:
  void write(StepOut out) const {
    for (int i = 0; i < 3; ++i) out.observation.as<float>(0)[i] = static_cast<float>(steps_);
    for (int i = 0; i < 2; ++i) out.observation.as<double>(1)[i] = 0.5;
    for (int i = 0; i < 4; ++i) out.observation.as<std::uint8_t>(2)[i] = 255;
    out.mask[0] = out.mask[1] = true;
  }
  template <class Number>
  void spoil(StepOut out, std::size_t field, int element) const {
    out.observation.as<Number>(field)[element] = bad_.number;
  }
  void spoil(StepOut out, StepResult& result) const {
    switch (bad_.where) {
      case BadData::kAfterLostLife:
        result.terminated = result.life_lost = true;
        return spoil<float>(out, 0, 1);
      case BadData::kObservation:
      case BadData::kFinalObservation:
        return spoil<float>(out, 0, 1);
      case BadData::kDouble:
        return spoil<double>(out, 1, 1);
      case BadData::kReward:
        result.reward = bad_.number;
        return;
      case BadData::kScore:
        *out.info.as<float>() = bad_.number;
        return;
      case BadData::kMask:
        out.mask[0] = out.mask[1] = false;
        return;
      default:
        return;
    }
  }

  EnvSpec spec_{.id = "Bad",
                .observation = {{"joints", {.shape = {3}}},
                                {"clock", {.dtype = DType::kFloat64, .shape = {2}}},
                                {"camera", {.dtype = DType::kUInt8, .shape = {4}}}},
                .action = ActionSpec::discrete(2),
                .info = {{"score", {}, PerEpisode::kSum}},
                .action_mask = true};
  BadData bad_;
  std::int64_t steps_ = 0;
};

inline EnvFactory make_bad(const BadData& bad) {
  return [bad](const EnvContext& c) { return std::make_unique<BadEnv>(c, bad); };
}

// Takes two real numbers and observes one.
class Lever : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t>, StepOut out) override {
    *out.observation.as<float>() = 0;
  }
  StepResult step(ArraysIn, StepOut out) override {
    *out.observation.as<float>() = 1;
    return {.reward = 1};
  }

 private:
  EnvSpec spec_{
      .id = "Lever", .observation = ArraySpec{.shape = {1}}, .action = ActionSpec::box(2, -1, 1)};
};

// Sets both actions of Lever to 0; the second one of environment 5 to -inf at tick 8.
class BadAgent : public Agent {
 public:
  const AgentSpec& spec() const override { return spec_; }
  void act(const ActIn& in, ActOut& out) override {
    out.action[0].zero_();
    for (std::int64_t i = 0; i < out.action[0].size(0); ++i) {
      const auto [env, tick] = in.noise.row(i);
      if (env == 5 && tick == 8) out.action[0][i][1] = -std::numeric_limits<double>::infinity();
    }
  }
  void value(const ActIn&, at::Tensor& value) override { value.zero_(); }
  NamedTensors parameters() override { return {}; }
  void to(at::Device) override {}
  at::Device device() const override { return at::kCPU; }

 private:
  AgentSpec spec_;
};

}  // namespace shoal::testing
