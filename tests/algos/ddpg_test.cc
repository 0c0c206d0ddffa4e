#include "shoal/algos/ddpg.h"

#include <gtest/gtest.h>

#include <limits>

#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "tests/algos/qpg_oracle.h"
#include "tests/support/message_of.h"

namespace shoal::ddpg_test {
namespace {

using qpg_oracle::kBatch;
using qpg_oracle::Oracle;

// Layers that fill no panel, one that fills a few, and none at all.
TEST(DdpgTest, UpdatesAreThoseOfThePlainReference) {
  const std::vector<std::vector<std::int64_t>> shapes = {{24, 20}, {70}, {}, {40, 33, 9}};
  for (const auto& hidden : shapes) {
    SCOPED_TRACE(fmt::format("{} hidden layers", hidden.size()));
    const auto agent = make_qpg_agent(qpg_oracle::toy_env(),
                                      {.stochastic = false, .critics = 1, .hidden = hidden}, 3);
    Oracle oracle(*agent, 1e-2, 3e-3);
    auto replay = qpg_oracle::make_replay(false), theirs = qpg_oracle::make_replay(false);
    for (auto* r : {&replay, &theirs}) r->append(qpg_oracle::make_rollout());
    const auto ddpg = make_ddpg(
        *agent, replay, {.critic_rate = 1e-2, .policy_rate = 3e-3, .batch = kBatch, .tau = 0.1});
    for (int i = 0; i < 6; ++i) {
      const auto metrics = ddpg->update({}, 1);
      const auto learned = oracle.learn(theirs.sample(kBatch), {.tau = 0.1});
      EXPECT_NEAR(qpg_oracle::metric(metrics, "critic_loss"), learned.critic_loss, 1e-4);
      EXPECT_NEAR(qpg_oracle::metric(metrics, "policy_loss"), learned.policy_loss, 1e-5);
      ASSERT_LT(qpg_oracle::furthest(*agent, oracle), 2e-5) << "update " << i;
    }
  }
}

// The critic learns from the target policy, which is a good one still.
TEST(DdpgTest, APolicyLossThatIsNotFiniteIsAnError) {
  const auto agent = make_qpg_agent(qpg_oracle::toy_env(), {.stochastic = false, .critics = 1}, 3);
  auto replay = qpg_oracle::make_replay(false);
  replay.append(qpg_oracle::make_rollout());
  const auto ddpg = make_ddpg(*agent, replay, {.batch = kBatch});
  agent->networks().policy.fill_(std::numeric_limits<double>::quiet_NaN());
  const auto text =
      message_of<DataError>([&] { ddpg->update({.steps = 40, .schedule_steps = 100}, 1); });
  EXPECT_TRUE(text.starts_with("policy_loss of the update after 40 steps is NaN")) << text;
}

TEST(DdpgTest, NeedsADeterministicPolicy) {
  const auto stochastic = make_qpg_agent(qpg_oracle::toy_env(), {}, 3);
  auto replay = qpg_oracle::make_replay(false);
  EXPECT_THROW(make_ddpg(*stochastic, replay, {}), Error);
}

}  // namespace
}  // namespace shoal::ddpg_test
