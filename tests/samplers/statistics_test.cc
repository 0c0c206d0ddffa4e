#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "shoal/envs/wrappers.h"
#include "shoal/samplers/async_sampler.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// Statistics over all episodes outlive resets with seeds, worker processes and samplers.
namespace shoal::statistics_test {
namespace {

using testing::Counter;
using testing::ToyAgent;

// Rewards of 100, in an environment that cannot be saved. Environment 1 may be killed at a step of
// each of its processes.
class Hundred : public Counter {
 public:
  Hundred(const EnvContext& c, std::int64_t killed_at)
      : Counter(c, {.length = 40}), killed_at_(c.index == 1 ? killed_at : 0) {}
  StepResult step(ArraysIn action, StepOut out) override {
    if (++steps_ == killed_at_) std::raise(SIGKILL);
    auto result = Counter::step(action, out);
    result.reward = 100;
    return result;
  }

 private:
  std::int64_t killed_at_, steps_ = 0;
};

EnvFactory make_normalized(std::int64_t killed_at = 0) {
  return with_normalized_reward(
      [=](const EnvContext& c) { return std::make_unique<Hundred>(c, killed_at); });
}

// The first reward of new statistics is about 100, and below 1 after 30 steps.
constexpr int kLearned = 8;
constexpr double kSmall = 1;

double largest_reward(const Batch& batch) { return batch.samples.reward.max().item<double>(); }

SamplerOptions options(const Workforce& force) {
  SamplerOptions o{.horizon = 5, .envs = 6};
  employ(o, force);
  return o;
}

class StatisticsTest : public ::testing::TestWithParam<Workforce> {};

TEST_P(StatisticsTest, OutliveACheckpointThatResetsEnvironments) {
  ToyAgent agent(2), other(2);
  const auto o = options(GetParam());
  const auto sampler = make_sampler(make_normalized(), agent, o);
  for (int i = 0; i < kLearned; ++i) sampler->collect();
  const auto resumed = make_sampler(make_normalized(), other, o, sampler->save(true));
  for (int i = 0; i < 3; ++i) {
    const auto here = sampler->collect();
    EXPECT_LT(largest_reward(here), kSmall);
    expect_same_batches(here, resumed->collect());
  }
}

TEST_P(StatisticsTest, OutliveAnAsynchronousSampler) {
  ToyAgent agent(2), actor(2);
  const auto o = options(GetParam());
  NamedTensors saved;
  {
    const auto sampler = make_async_sampler(make_normalized(), agent, actor, o);
    for (int i = 0; i < 3 * kLearned; ++i) sampler->collect();
    saved = sampler->save(false);
  }
  const auto resumed = make_async_sampler(make_normalized(), agent, actor, o, {}, saved);
  for (int i = 0; i < 6; ++i) EXPECT_LT(largest_reward(resumed->collect()), kSmall);
}

INSTANTIATE_TEST_SUITE_P(Samplers, StatisticsTest,
                         ::testing::Values(Workforce{SamplerKind::kSerial, 1, 2},
                                           Workforce{SamplerKind::kParallelGpu, 3, 1},
                                           Workforce{SamplerKind::kParallelGpu, 3, kOwnPace},
                                           Workforce{SamplerKind::kParallelCpu, 3, 1}),
                         workforce_name);

TEST(StatisticsTest, OutliveAWorker) {
  for (const auto kind : {SamplerKind::kParallelGpu, SamplerKind::kParallelCpu}) {
    for (const bool asynchronous : {false, true}) {
      ToyAgent agent(2), actor(2);
      auto o = options({kind, 2, 1});
      o.on_death = OnDeath::kRestart;
      ::testing::internal::CaptureStderr();
      std::unique_ptr<Sampler> sampler;
      if (asynchronous)
        sampler = make_async_sampler(make_normalized(60), agent, actor, o);
      else
        sampler = make_sampler(make_normalized(60), agent, o);
      const int until_it_dies = (asynchronous && kind == SamplerKind::kParallelCpu ? 2 : 1) * 12;
      for (int i = 0; i < 3 * until_it_dies / 2; ++i) {
        const auto batch = sampler->collect();
        if (i > until_it_dies - 3) {
          EXPECT_LT(largest_reward(batch), kSmall) << i;
        }
      }
      sampler.reset();
      EXPECT_NE(::testing::internal::GetCapturedStderr().find("SIGKILL"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace shoal::statistics_test
