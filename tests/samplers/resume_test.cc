#include <gtest/gtest.h>

#include <memory>

#include "shoal/agents/actor_critic.h"
#include "shoal/envs/classic_control.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/message_of.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// A sampler resumes from the saved state of another one, bit for bit.
namespace shoal {
namespace {

using testing::make_gestures;
using testing::make_zoo;
using testing::ToyAgent;

constexpr std::int64_t kEnvs = 5;

class ResumeTest : public ::testing::TestWithParam<Workforce> {
 protected:
  static SamplerOptions options(std::int64_t horizon, bool mid_batch_reset) {
    SamplerOptions o{
        .horizon = horizon, .envs = kEnvs, .mid_batch_reset = mid_batch_reset, .decorrelation = 7};
    employ(o, GetParam());
    return o;
  }
};

void collect(Sampler& sampler, int rollouts) {
  for (int i = 0; i < rollouts; ++i) sampler.collect();
}

void expect_same_future(Sampler& one, Sampler& other) {
  for (int i = 0; i < 4 && !::testing::Test::HasFailure(); ++i)
    expect_same_batches(one.collect(), other.collect());
}

// Odd and even horizons: the place of the agent's state after a rollout depends on it.
TEST_P(ResumeTest, TheFutureIsTheSame) {
  for (const bool mid_batch_reset : {true, false}) {
    for (const std::int64_t horizon : {1, 6, 7}) {
      SCOPED_TRACE(fmt::format("{} steps, mid_batch_reset {}", horizon, mid_batch_reset));
      const auto o = options(horizon, mid_batch_reset);
      ToyAgent a(3), b(3), c(3);
      const auto saving = make_sampler(make_zoo(), a, o), plain = make_sampler(make_zoo(), b, o);
      collect(*saving, 3);
      collect(*plain, 3);
      const auto resumed = make_sampler(make_zoo(), c, o, saving->save(true));
      for (int i = 0; i < 4 && !HasFailure(); ++i) {
        const auto expected = plain->collect();
        expect_same_batches(expected, saving->collect());
        expect_same_batches(expected, resumed->collect());
      }
    }
  }
}

TEST_P(ResumeTest, BeforeTheFirstRollout) {
  const auto o = options(6, false);
  ToyAgent a(3), b(3);
  const auto first = make_sampler(make_zoo(), a, o);
  const auto second = make_sampler(make_zoo(), b, o, first->save(true));
  expect_same_future(*first, *second);
}

TEST_P(ResumeTest, TwiceWithoutARolloutBetween) {
  const auto o = options(7, false);
  ToyAgent a(3), b(3), c(3);
  const auto first = make_sampler(make_zoo(), a, o);
  collect(*first, 2);
  const auto second = make_sampler(make_zoo(), b, o, first->save(true));
  const auto third = make_sampler(make_zoo(), c, o, second->save(true));
  expect_same_future(*first, *third);
}

// These environments begin new episodes, the same ones in both samplers, and different ones after
// each save().
TEST_P(ResumeTest, WhatCannotBeSavedIsReset) {
  for (const bool mid_batch_reset : {true, false}) {
    const auto o = options(6, mid_batch_reset);
    const auto make_agent = [&] {
      return make_actor_critic(make_gestures()({})->spec(), ModelOptions{}, {}, 3);
    };
    const auto one = make_agent(), other = make_agent();
    const auto first = make_sampler(make_gestures(), *one, o);
    collect(*first, 2);
    const auto saved = first->save(true);
    const auto second = make_sampler(make_gestures(), *other, o, saved);
    EXPECT_EQ(saved.at("env/0").numel(), 0);
    const auto start = first->collect().samples.observation[0][0].clone();
    expect_equal(second->collect().samples.observation[0][0], start, "the new episodes' start");
    EXPECT_TRUE(first->collect().samples.policy_version == 3);
    second->collect();
    expect_same_future(*first, *second);
    first->save(true);
    EXPECT_FALSE(at::equal(first->collect().samples.observation[0][0], start));
  }
}

TEST_P(ResumeTest, WhatCannotBeSavedGoesOnUnlessAsked) {
  const auto o = options(6, false);
  const auto make_agent = [] {
    return make_actor_critic(make_gestures()({})->spec(), ModelOptions{}, {}, 3);
  };
  const auto one = make_agent(), other = make_agent();
  const auto first = make_sampler(make_gestures(), *one, o);
  const auto second = make_sampler(make_gestures(), *other, o);
  collect(*first, 2);
  collect(*second, 2);
  first->save(false);
  expect_same_future(*first, *second);
}

INSTANTIATE_TEST_SUITE_P(All, ResumeTest,
                         ::testing::Values(Workforce(SamplerKind::kSerial, 1, 1),
                                           Workforce(SamplerKind::kSerial, 1, 2),
                                           Workforce(SamplerKind::kParallelGpu, 2, 1),
                                           Workforce(SamplerKind::kParallelGpu, 3, 2),
                                           Workforce(SamplerKind::kParallelGpu, 3, kOwnPace),
                                           Workforce(SamplerKind::kParallelCpu, 2, 1),
                                           Workforce(SamplerKind::kParallelCpu, 3, 2)),
                         workforce_name);

TEST(ResumeOtherwiseTest, KindWorkersGroupsAndHorizonMayChange) {
  ToyAgent a(3), b(3), c(3), d(3);
  const auto saving = make_sampler(make_zoo(), a, parallel(6, kEnvs, 3, 2));
  collect(*saving, 3);
  const auto saved = saving->save(true);
  auto o = parallel(4, kEnvs, 1);
  o.kind = SamplerKind::kParallelCpu;
  const auto one = make_sampler(make_zoo(), b, o, saved);
  const auto other = make_sampler(make_zoo(), c, serial(4, kEnvs), saved);
  expect_same_future(*one, *other);
}

TEST(ResumeOtherwiseTest, WhatDoesNotFitIsNamed) {
  ToyAgent a(3), b(3);
  const auto saved = make_sampler(make_zoo(), a, serial(6, kEnvs))->save(true);
  const auto message = [&](const EnvFactory& make_env, Agent& agent, std::int64_t envs) {
    return message_of([&] { make_sampler(make_env, agent, serial(6, envs), saved); });
  };
  EXPECT_EQ(message(make_zoo(), b, 6), "the checkpoint has no 'env/5'");
  EXPECT_EQ(message(make_zoo(), b, 4),
            "'rows/observation/camera' was saved as Byte [3, 5, 3, 4], expected Byte [3, 4, 3, 4]");
  EXPECT_EQ(message(make_cart_pole(), b, kEnvs),
            "the checkpoint has no 'rows/observation/', expected Float [2, 5, 4]");
}

}  // namespace
}  // namespace shoal
