#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "shoal/core/finite.h"
#include "shoal/samplers/async_sampler.h"
#include "tests/support/bad_envs.h"
#include "tests/support/toy_agents.h"

namespace shoal {
namespace {

using testing::BadData;
using Clock = std::chrono::steady_clock;

struct Sampling {
  const char* name;
  SamplerOptions options;
  bool asynchronous = false;
};

// 8 environments, of which the second of two workers has number 5.
SamplerOptions options_of(SamplerKind kind, int groups = 1, std::int64_t batch = 0,
                          bool mid_batch_reset = true) {
  return {.kind = kind,
          .horizon = 10,
          .envs = 8,
          .workers = 2,
          .groups = groups,
          .dynamic_batch = batch,
          .mid_batch_reset = mid_batch_reset};
}

constexpr auto kSerial = SamplerKind::kSerial;
constexpr auto kGpu = SamplerKind::kParallelGpu, kCpu = SamplerKind::kParallelCpu;

class BadDataTest : public ::testing::TestWithParam<Sampling> {
 protected:
  // Returns the message of the error; the rollouts before it must be good.
  static std::string collect_until_error(const EnvFactory& make_env, Agent& agent, Agent& actor,
                                         const SamplerOptions& options) {
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    try {
      const auto sampler = GetParam().asynchronous
                               ? make_async_sampler(make_env, agent, actor, options)
                               : make_sampler(make_env, agent, options);
      while (Clock::now() < deadline) expect_good(sampler->collect().samples);
    } catch (const WorkerDataError& e) {
      EXPECT_NE(options.kind, kSerial);
      EXPECT_EQ(e.env, 5);
      return e.what();
    } catch (const DataError& e) {
      EXPECT_EQ(options.kind, kSerial);
      return e.what();
    }
    ADD_FAILURE() << "it went on";
    return "";
  }

  static void expect_good(const Samples& s) {
    for (const auto& [name, x] : s.observation)
      EXPECT_TRUE(x.to(at::kDouble).isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(s.reward.isfinite().all().item<bool>());
  }

  static void expect_error(const BadData& bad, const std::string& words,
                           const SamplerOptions& options = GetParam().options) {
    testing::ToyAgent agent(2), actor(2);
    const auto text = collect_until_error(testing::make_bad(bad), agent, actor, options);
    EXPECT_NE(text.find(words), std::string::npos) << words << "\nnot in: " << text;
  }

  // The place in the message when the environment takes step `step`, counted from 1. Waiting for
  // the end of a rollout skips ticks.
  static std::string at_step(std::int64_t step) {
    const auto& o = GetParam().options;
    const auto length = testing::BadEnv::kLength, before = (step - 1) / length * length;
    const auto tick =
        o.mid_batch_reset ? step - 1 : before / length * o.horizon + step - 1 - before;
    return "environment 5 at step " + std::to_string(tick) + ": ";
  }
};

TEST_P(BadDataTest, AnObservationIsNamed) {
  expect_error({.where = BadData::kObservation},
               at_step(9) + "element 1 of observation 'joints' is NaN, expected finite numbers");
  expect_error({.where = BadData::kDouble, .number = HUGE_VALF},
               at_step(9) + "element 1 of observation 'clock' is inf");
}

TEST_P(BadDataTest, TheObservationsAroundTheEndOfAnEpisodeAreLookedAt) {
  const std::string words = "element 1 of observation 'joints' is NaN";
  expect_error({.where = BadData::kFinalObservation, .step = 12}, at_step(12) + words);
  expect_error({.where = BadData::kAfterLostLife}, at_step(9) + words);
  expect_error({.where = BadData::kFirstObservation, .step = 12}, words);
}

TEST_P(BadDataTest, TheVeryFirstObservationIsLookedAt) {
  expect_error({.where = BadData::kFirstObservation, .step = 0},
               "element 1 of observation 'joints' is NaN");
}

TEST_P(BadDataTest, ARewardOrAScoreIsNamed) {
  expect_error({.where = BadData::kReward, .number = -HUGE_VALF},
               at_step(9) + "the reward is -inf, expected a finite number");
  expect_error({.where = BadData::kReward, .step = 12}, at_step(12) + "the reward is NaN");
  expect_error({.where = BadData::kScore}, at_step(9) + "the info 'score' is NaN");
}

TEST_P(BadDataTest, AMaskWithoutALegalActionIsNamedUnlessTheEpisodeIsOver) {
  const std::string words = "the action mask allows no action, expected at least one";
  expect_error({.where = BadData::kMask}, at_step(9) + words);
  for (const std::int64_t decorrelation : {0, 100}) {
    testing::ToyAgent agent(2);
    auto options = options_of(kSerial);
    options.decorrelation = decorrelation;
    const BadData at_the_end{.where = BadData::kMask, .step = decorrelation == 0 ? 12 : 6};
    const auto sampler = make_sampler(testing::make_bad(at_the_end), agent, options);
    for (int i = 0; i < 3; ++i) sampler->collect();
  }
}

TEST_P(BadDataTest, AnActionIsNamed) {
  testing::BadAgent agent, actor;
  const auto make_lever = [](const EnvContext&) { return std::make_unique<testing::Lever>(); };
  int failures = 0;  // of environments
  auto options = GetParam().options;
  options.on_failure = [&](const EnvFailure&) { ++failures; };
  const auto text = collect_until_error(make_lever, agent, actor, options);
  EXPECT_EQ(failures, 0);
  EXPECT_NE(text.find("environment 5 at step 8: element 1 of the action is -inf"),
            std::string::npos)
      << text;
}

TEST_P(BadDataTest, AWorkerIsNotStartedAnewForIt) {
  auto options = GetParam().options;
  if (options.kind == kSerial) GTEST_SKIP() << "there are no workers";
  options.on_death = OnDeath::kRestart;
  expect_error({.where = BadData::kReward}, at_step(9) + "the reward is NaN", options);
}

TEST_P(BadDataTest, StepsBeforeTheFirstRolloutAreLookedAt) {
  auto options = GetParam().options;
  options.decorrelation = 100;  // environment 5 takes more than 6
  const std::string observation = "element 1 of observation 'joints' is NaN";
  for (const auto& [where, step, words] :
       {std::tuple{BadData::kObservation, 1, observation},
        std::tuple{BadData::kObservation, 6, observation},
        std::tuple{BadData::kFirstObservation, 6, observation},
        std::tuple{BadData::kReward, 1, std::string("the reward is NaN")},
        std::tuple{BadData::kScore, 1, std::string("the info 'score' is NaN")},
        std::tuple{BadData::kMask, 1, std::string("the action mask allows no action")}})
    expect_error({.where = where, .step = step}, words, options);
}

INSTANTIATE_TEST_SUITE_P(
    Samplers, BadDataTest,
    ::testing::Values(Sampling{"Serial", options_of(kSerial)},
                      Sampling{"SerialGroups", options_of(kSerial, 2)},
                      Sampling{"SerialWaits", options_of(kSerial, 1, 0, false)},
                      Sampling{"ParallelGpu", options_of(kGpu)},
                      Sampling{"ParallelGpuGroups", options_of(kGpu, 2)},
                      Sampling{"ParallelGpuWaits", options_of(kGpu, 1, 0, false)},
                      Sampling{"Dynamic", options_of(kGpu, 1, 4)},
                      Sampling{"ParallelCpu", options_of(kCpu)},
                      Sampling{"ParallelCpuWaits", options_of(kCpu, 2, 0, false)},
                      Sampling{"AsyncSerial", options_of(kSerial), true},
                      Sampling{"AsyncGpu", options_of(kGpu, 2), true},
                      Sampling{"AsyncDynamic", options_of(kGpu, 1, 4), true},
                      Sampling{"AsyncCpu", options_of(kCpu), true}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace shoal
