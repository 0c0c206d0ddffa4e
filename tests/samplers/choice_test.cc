#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "samplers/sampler_ways.h"
#include "samplers/turns.h"
#include "shoal/agents/actor_critic.h"
#include "shoal/core/stop.h"
#include "shoal/envs/classic_control.h"
#include "shoal/samplers/choose_sampler.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/fragile_env.h"
#include "tests/support/toy_envs.h"

// SamplerKind::kAuto: the candidates, the choice given their rates, and the measurement.
namespace shoal {

inline void PrintTo(const SamplerWay& way, std::ostream* to) { *to << name_of(way); }

namespace {

using enum SamplerKind;
using testing::Breakage;
using testing::make_fragile;
using Ways = std::vector<SamplerWay>;

constexpr SamplingCost kFast{.making = 1e-4, .step = 3e-6}, kSlow{.making = 1e-2, .step = 3e-4};
constexpr std::int64_t kLongRun = 1'000'000'000;

SamplerOptions any_sampler(std::int64_t envs = 16) {
  return {.kind = kAuto, .horizon = 128, .envs = envs, .workers = 0};
}

TEST(SamplerWaysTest, FastStepsBeginWithSerialSlowOnesWithAllCores) {
  EXPECT_EQ(sampler_ways(any_sampler(), 2, true, kFast), (Ways{{kSerial, 0, 1},
                                                               {kParallelCpu, 2, 1},
                                                               {kParallelCpu, 4, 1},
                                                               {kParallelGpu, 2, 1},
                                                               {kParallelGpu, 2, 2},
                                                               {kParallelGpu, 1, 1},
                                                               {kParallelGpu, 1, 2}}));
  EXPECT_EQ(
      sampler_ways(any_sampler(), 2, true, kSlow),
      (Ways{
          {kParallelCpu, 2, 1}, {kParallelCpu, 4, 1}, {kParallelGpu, 2, 1}, {kParallelGpu, 2, 2}}));
}

TEST(SamplerWaysTest, AnAgentWhoseRowsDependOnTheBatchActsInTheSameBatches) {
  auto o = any_sampler();
  EXPECT_EQ(sampler_ways(o, 2, false, kFast),
            (Ways{{kSerial, 0, 1}, {kParallelGpu, 2, 1}, {kParallelGpu, 1, 1}}));
  o.groups = 2;
  EXPECT_EQ(sampler_ways(o, 2, false, kFast),
            (Ways{{kSerial, 0, 2}, {kParallelGpu, 2, 2}, {kParallelGpu, 1, 2}}));
}

TEST(SamplerWaysTest, OneCoreOrOneEnvironmentIsSerial) {
  EXPECT_EQ(sampler_ways(any_sampler(), 1, true, kSlow), (Ways{{kSerial, 0, 1}}));
  EXPECT_EQ(sampler_ways(any_sampler(1), 64, true, kSlow), (Ways{{kSerial, 0, 1}}));
}

TEST(SamplerWaysTest, OptionsLimitThem) {
  auto o = any_sampler();
  o.workers = 3;
  for (const auto& way : sampler_ways(o, 2, true, kFast)) EXPECT_EQ(way.workers, 3);
  auto restarts = any_sampler(), pins = any_sampler();
  restarts.on_death = OnDeath::kRestart;
  pins.pin = true;
  for (const auto& each : {restarts, pins}) {
    for (const int cores : {1, 2})
      for (const auto& way : sampler_ways(each, cores, true, kFast)) EXPECT_NE(way.kind, kSerial);
    EXPECT_FALSE(sampler_ways(each, 1, true, kFast).empty());
  }
}

TEST(SamplerWaysTest, WorkersHaveEqualShares) {
  EXPECT_EQ(sampler_ways(any_sampler(), 12, true, kSlow)[0], (SamplerWay{kParallelCpu, 8, 1}));
  for (const auto& way : sampler_ways(any_sampler(3), 64, true, kFast)) EXPECT_LE(way.workers, 3);
}

TEST(SamplerWaysTest, ShortRunsAndSlowEnvironmentsAreNotMeasured) {
  const auto o = any_sampler();
  EXPECT_EQ(reason_not_to_measure(o, 2, kFast, kLongRun), "");
  EXPECT_EQ(reason_not_to_measure(o, 2, kSlow, kLongRun), "");
  EXPECT_NE(reason_not_to_measure(o, 2, kFast, 100'000), "");
  EXPECT_NE(reason_not_to_measure(o, 2, {.making = 1e-3, .step = 1}, kLongRun), "");
  EXPECT_NE(reason_not_to_measure(o, 2, {.making = 5, .step = 1e-5}, kLongRun), "");
  // An interpreter is loaded once, not for every environment.
  EXPECT_EQ(reason_not_to_measure(o, 2, {.starting = 0.5, .making = 1e-3, .step = 1e-5}, kLongRun),
            "");
  EXPECT_NE(reason_not_to_measure(o, 2, {.starting = 5, .making = 1e-3, .step = 1e-5}, kLongRun),
            "");
}

TEST(SamplerWaysTest, WithoutMeasuringSlowStartsAreShared) {
  const auto ways = sampler_ways(any_sampler(), 2, true, kFast);
  EXPECT_EQ(way_by_rule(ways, true), 0U);
  EXPECT_EQ(ways[way_by_rule(ways, false)], (SamplerWay{kParallelCpu, 2, 1}));
  EXPECT_EQ(way_by_rule(sampler_ways(any_sampler(), 2, false, kFast), false), 0U);
}

TEST(SamplerWaysTest, TheWayOfTheRuleWinsADraw) {
  const auto ways = sampler_ways(any_sampler(), 2, true, kFast);
  ASSERT_EQ(way_by_rule(ways, false), 1U);
  const auto preferred = [&](std::vector<std::size_t> usable, std::vector<double> rates) {
    const auto fastest = std::ranges::max_element(rates) - rates.begin();
    return preferred_way(ways, usable, {rates, static_cast<std::size_t>(fastest)});
  };
  EXPECT_EQ(preferred({0, 1, 2}, {105, 100, 90}), 1U);
  EXPECT_EQ(preferred({0, 1, 2}, {115, 100, 90}), 0U);
  EXPECT_EQ(preferred({0, 2, 3}, {100, 90, 105}), 2U) << "the rule's could not be measured";
}

TEST(SamplerWaysTest, TheMeasuredHorizonIsThatOfTheRunOrShorter) {
  EXPECT_EQ(measured_horizon(any_sampler(), kFast), 128);
  EXPECT_EQ(measured_horizon(any_sampler(), kSlow), 42);
  EXPECT_EQ(measured_horizon(any_sampler(), {.making = 1, .step = 1}), 1);
}

TEST(TurnsTest, TheFastestWinsAndSlowOnesAreDroppedAtOnce) {
  const std::vector<double> rates{1e6, 2e6, 1.9e6, 2e5};
  std::vector<int> turns(4);
  const auto found = compare_by_turns(4, kLongRun, [&](std::size_t i) {
    // Every third turn is disturbed.
    const double disturbed = ++turns[i] % 3 == 1 ? 0.8 : 1;
    return Turn{.steps = rates[i] * 0.02 * disturbed, .seconds = 0.02};
  });
  EXPECT_EQ(found.fastest, 1U);
  EXPECT_DOUBLE_EQ(found.rates[1], rates[1]);
  EXPECT_EQ(turns[0], 1);
  EXPECT_EQ(turns[3], 1);
  EXPECT_GT(turns[2], 5);
}

TEST(TurnsTest, TheTimeIsATenthOfTheRunAndAtMostASecond) {
  for (const auto& [steps, seconds] : {std::pair{kLongRun, 1.0}, {20'000, 0.1}, {500'000, 0.5}}) {
    double spent = 0;
    compare_by_turns(2, steps, [&](std::size_t) {
      spent += 0.01;
      return Turn{.steps = 1e3, .seconds = 0.01};
    });
    EXPECT_NEAR(spent, seconds, 0.02);
  }
}

TEST(TurnsTest, WarmingCountsAsTimeSpent) {
  int turns = 0;
  compare_by_turns(2, kLongRun, [&](std::size_t) {
    ++turns;
    return Turn{.steps = 1e3, .seconds = 0.01, .warming = 0.24};
  });
  EXPECT_EQ(turns, 4);
}

TEST(TurnsTest, ATurnThatFailsEndsIt) {
  int turns = 0;
  const auto found = compare_by_turns(3, kLongRun, [&](std::size_t) {
    return ++turns == 5 ? Turn{} : Turn{.steps = 1, .seconds = 0.01};
  });
  EXPECT_TRUE(found.rates.empty());
  EXPECT_EQ(turns, 5);
}

std::unique_ptr<Agent> agent_for(const EnvFactory& make_env) {
  return make_actor_critic(make_env({})->spec(), ModelOptions{}, {}, 3);
}

// Each step takes a millisecond, on no core.
class Sleepy : public testing::Counter {
 public:
  using Counter::Counter;
  StepResult step(ArraysIn action, StepOut out) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Counter::step(action, out);
  }
};

EnvFactory make_sleepy() {
  return [](const EnvContext& c) { return std::make_unique<Sleepy>(c, testing::CounterOptions{}); };
}

class ChooseSamplerTest : public ::testing::Test {
 protected:
  static SamplerChoice choose(const EnvFactory& make_env,
                              const SamplerOptions& options = any_sampler(),
                              const ChoiceOptions& choice = {}) {
    const auto agent = agent_for(make_env);
    return choose_sampler(make_env, *agent, options, choice);
  }
};

TEST_F(ChooseSamplerTest, TheMeasuredSamplerMakesTheSameSamples) {
  const auto make_env = make_cart_pole();
  const auto agent = agent_for(make_env), other = agent_for(make_env);
  // With sanitizers on a busy machine, two candidates can take the second that is the default.
  const auto choice =
      choose_sampler(make_env, *agent, any_sampler(), {.start_limit = std::chrono::minutes(1)});
  if (allowed_cores().size() > 1) {
    ASSERT_GT(choice.measured.size(), 2U) << choice.reason;
    for (const auto& each : choice.measured) EXPECT_GT(each.rate, 0) << each.sampler;
  }
  EXPECT_NE(choice.options.kind, kAuto);
  const auto a = make_sampler(make_env, *agent, choice.options);
  const auto b = make_sampler(make_env, *other, serial(128, 16));
  for (int i = 0; i < 3; ++i) expect_same_batches(b->collect(), a->collect());
}

TEST_F(ChooseSamplerTest, WorkersAreChosenForEnvironmentsThatSleep) {
  if (allowed_cores().size() == 1) GTEST_SKIP() << "there is nothing to choose from";
  const auto choice = choose(make_sleepy());
  ASSERT_FALSE(choice.measured.empty()) << choice.reason;
  EXPECT_GT(choice.options.workers, 1);
}

TEST_F(ChooseSamplerTest, WithoutMeasuringItIsParallelGpu) {
  const auto choice = choose(make_cart_pole(), any_sampler(4), {.measure = false});
  EXPECT_EQ(choice.options.kind, kParallelGpu);
  EXPECT_EQ(choice.options.workers, std::min<std::int64_t>(4, std::ssize(allowed_cores())));
  auto dynamic = any_sampler(4);
  dynamic.dynamic_batch = 2;
  EXPECT_EQ(choose(make_cart_pole(), dynamic).options.kind, kParallelGpu);
}

TEST_F(ChooseSamplerTest, AFailureOfAnEnvironmentLeavesTheChoiceToARule) {
  if (allowed_cores().size() == 1) GTEST_SKIP() << "there is nothing to choose from";
  const auto agent = agent_for(make_fragile({.index = -1}));
  // The first environment fails when the cost of a step is found, the last one in the comparison.
  for (const int index : {0, 15})
    for (const auto how : {Breakage::kThrow, Breakage::kSegfault, Breakage::kExit,
                           Breakage::kThrowInConstructor, Breakage::kThrowInFirstReset}) {
      const auto make_env = make_fragile({.how = how, .index = index, .at = 2});
      const auto choice = choose_sampler(make_env, *agent, any_sampler(), {});
      EXPECT_TRUE(choice.measured.empty());
      EXPECT_NE(choice.reason, "");
      EXPECT_NE(choice.options.kind, kAuto);
    }
}

TEST_F(ChooseSamplerTest, AnEnvironmentThatHangsEndsItInTime) {
  const auto start = std::chrono::steady_clock::now();
  const auto choice = choose(make_fragile({.how = Breakage::kHang, .index = 0, .at = 2}));
  EXPECT_TRUE(choice.measured.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(ChooseSamplerTest, ARequestToStopInterruptsIt) {
  if (allowed_cores().size() == 1) GTEST_SKIP() << "there is nothing to choose from";
  set_stop_grace(std::chrono::milliseconds(0));
  request_stop(SIGTERM);
  EXPECT_THROW(choose(make_sleepy()), Interrupted);
  request_stop(0);
  set_stop_grace(kStopGrace);
}

// The other rank has the same numbers.
TEST_F(ChooseSamplerTest, RanksAddTheirRates) {
  if (allowed_cores().size() == 1) GTEST_SKIP() << "there is nothing to choose from";
  const auto twice = [](std::vector<double>& numbers) {
    for (auto& number : numbers) number *= 2;
  };
  EXPECT_FALSE(
      choose(make_cart_pole(), any_sampler(), {.ranks = 2, .sum = twice}).measured.empty());
}

TEST_F(ChooseSamplerTest, TheFailureOfAnotherRankLeavesTheChoiceToARule) {
  if (allowed_cores().size() == 1) GTEST_SKIP() << "there is nothing to choose from";
  int calls = 0;
  const auto fails_later = [&](std::vector<double>& numbers) {
    for (auto& number : numbers) number *= ++calls > 8 ? 1 : 2;
  };
  // Slow steps, so that the rule is the same however slow the machine is.
  const auto choice = choose(make_sleepy(), any_sampler(), {.ranks = 2, .sum = fails_later});
  EXPECT_TRUE(choice.measured.empty());
  EXPECT_EQ(choice.reason, "another rank could not measure");
  EXPECT_EQ(choice.options.kind, kParallelCpu);
}

}  // namespace
}  // namespace shoal
