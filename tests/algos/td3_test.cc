#include "shoal/algos/td3.h"

#include <gtest/gtest.h>

#include "shoal/core/error.h"
#include "tests/algos/qpg_oracle.h"

namespace shoal::td3_test {
namespace {

using qpg_oracle::kBatch;
using qpg_oracle::Oracle;

const QpgAgentOptions kSmall{.stochastic = false, .hidden = {24, 20}};

TEST(Td3Test, UpdatesAreThoseOfThePlainReference) {
  for (const bool prioritized : {false, true}) {
    const auto agent = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
    Oracle oracle(*agent, 1e-2, 3e-3);
    auto replay = qpg_oracle::make_replay(prioritized),
         theirs = qpg_oracle::make_replay(prioritized);
    for (auto* r : {&replay, &theirs}) r->append(qpg_oracle::make_rollout());
    const auto td3 = make_td3(*agent, replay,
                              {.critic_rate = 1e-2,
                               .policy_rate = 3e-3,
                               .batch = kBatch,
                               .tau = 0.1,
                               .policy_interval = 3,
                               .target_noise = 0.4,
                               .target_clip = 0.3,
                               .seed = 5});
    for (std::uint64_t i = 0; i < 9; ++i) {
      const auto metrics = td3->update({}, 1);
      const auto& batch = theirs.sample(kBatch, 0.4);
      const auto learned = oracle.learn(batch, {.policy = i % 3 == 2,
                                                .tau = 0.1,
                                                .target_noise = 0.4,
                                                .target_clip = 0.3,
                                                .seed = 5,
                                                .number = i});
      if (prioritized) theirs.update_priorities(batch.index, learned.error + 1e-6);
      EXPECT_NEAR(qpg_oracle::metric(metrics, "critic_loss"), learned.critic_loss, 1e-4);
      if (i % 3 == 2)
        EXPECT_NEAR(qpg_oracle::metric(metrics, "policy_loss"), learned.policy_loss, 1e-5);
      else
        EXPECT_THROW(qpg_oracle::metric(metrics, "policy_loss"), std::out_of_range);
      EXPECT_NEAR(qpg_oracle::metric(metrics, "td_error"), learned.error.mean().item<double>(),
                  1e-5);
      ASSERT_LT(qpg_oracle::furthest(*agent, oracle), 2e-5) << "update " << i;
    }
  }
}

TEST(Td3Test, TensorOperationsLearnTheSame) {
  const auto fused = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3),
             plain = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  auto replay = qpg_oracle::make_replay(true);
  replay.append(qpg_oracle::make_rollout());
  const auto ours = make_fused_learner(*fused, kBatch), theirs = make_tensor_learner(*plain);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const auto& batch = replay.sample(kBatch, 0.5);
    const QpgUpdate update{.critic_rate = 1e-2,
                           .policy_rate = 1e-2,
                           .policy = i % 2 == 0,
                           .tau = i % 2 == 0 ? 0.1 : 0,
                           .target_noise = 0.2,
                           .target_clip = 0.5,
                           .least_value = false,
                           .number = i};
    ours->learn(batch, update);
    theirs->learn(batch, update);
    const auto mine = fused->parameters(), other = plain->parameters();
    for (const auto& [name, parameter] : mine)
      ASSERT_LT((parameter - other.at(name)).abs().max().item<double>(), 2e-5) << name;
  }
}

TEST(Td3Test, RatesFallOverTheSchedule) {
  const auto falling = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3),
             steady = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  auto replay = qpg_oracle::make_replay(false), other = qpg_oracle::make_replay(false);
  for (auto* r : {&replay, &other}) r->append(qpg_oracle::make_rollout());
  const auto ours = make_td3(
      *falling, replay,
      {.critic_rate = 4e-3, .policy_rate = 4e-3, .anneal_learning_rate = true, .batch = kBatch});
  const auto theirs =
      make_td3(*steady, other, {.critic_rate = 1e-3, .policy_rate = 1e-3, .batch = kBatch});
  const auto mine = ours->update({.steps = 75, .schedule_steps = 100}, 4);
  EXPECT_EQ(mine, theirs->update({.steps = 75, .schedule_steps = 100}, 4));
  qpg_oracle::expect_equal(steady->parameters(), falling->parameters());
}

TEST(Td3Test, ExploresAtRandomUntilItLearns) {
  const auto agent = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  auto replay = qpg_oracle::make_replay(false);
  const auto td3 = make_td3(*agent, replay, {.exploration_noise = 0.25});
  td3->explore({}, false);
  EXPECT_EQ(agent->exploration()[0].item<float>(), 1);
  td3->explore({}, true);
  EXPECT_TRUE(at::equal(agent->exploration(), at::tensor({0.0F, 0.25F})));
}

TEST(Td3Test, RefusesWhatMakesNoSense) {
  const auto agent = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  const auto stochastic = make_qpg_agent(qpg_oracle::toy_env(), {}, 3);
  auto replay = qpg_oracle::make_replay(false);
  EXPECT_THROW(make_td3(*stochastic, replay, {}), Error);
  EXPECT_THROW(make_td3(*agent, replay, {.policy_rate = 0}), Error);
  EXPECT_THROW(make_td3(*agent, replay, {.policy_interval = 0}), Error);
  EXPECT_THROW(make_td3(*agent, replay, {.target_noise = -1}), Error);
  EXPECT_THROW(make_td3(*agent, replay, {.exploration_noise = -1}), Error);
}

}  // namespace
}  // namespace shoal::td3_test
