#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <vector>

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

// An environment with rewards of 100 that cannot be saved. Environment 1 may kill its process, at
// the same step of each process.
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

// With new statistics the first reward is about 100; after 30 steps rewards are below 1.
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
    expect_equal(here.samples.reward, resumed->collect().samples.reward, "reward");
  }
}

TEST_P(StatisticsTest, OutliveAnAsynchronousSampler) {
  ToyAgent agent(2), actor(2);
  const auto o = options(GetParam());
  NamedTensors saved;
  {
    const auto sampler = make_async_sampler(make_normalized(), agent, actor, o);
    std::vector<std::int64_t> ticks(static_cast<std::size_t>(o.envs));
    while (*std::ranges::min_element(ticks) < 5 * kLearned) {  // of the slowest worker, too
      const auto& x = sampler->collect().samples;
      std::fill_n(ticks.begin() + x.first_env, x.B, x.first_tick);
    }
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
      for (std::int64_t tick = 0; tick < 80;) {  // of environment 1
        const auto batch = sampler->collect();
        const auto& x = batch.samples;
        if (x.first_env <= 1 && x.first_env + x.B > 1) tick = x.first_tick;
        if (x.first_tick >= 40) {
          EXPECT_LT(largest_reward(batch), kSmall) << x.first_tick;
        }
      }
      sampler.reset();
      EXPECT_NE(::testing::internal::GetCapturedStderr().find("SIGKILL"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace shoal::statistics_test
