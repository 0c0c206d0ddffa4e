#include "shoal/algos/sac.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "src/models/panel_bf16.h"
#include "tests/algos/qpg_oracle.h"
#include "tests/support/message_of.h"

namespace shoal::sac_test {
namespace {

using qpg_oracle::kBatch;
using qpg_oracle::Oracle;

const QpgAgentOptions kSmall{.hidden = {24, 20}};

// Successive updates, each with the temperature of the previous one.
TEST(SacTest, UpdatesAreThoseOfThePlainReference) {
  for (const bool prioritized : {false, true}) {
    for (const bool learn_alpha : {false, true}) {
      SCOPED_TRACE(fmt::format("prioritized {}, learned alpha {}", prioritized, learn_alpha));
      const auto agent = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
      Oracle oracle(*agent, 1e-2, 1e-2);
      auto replay = qpg_oracle::make_replay(prioritized),
           theirs = qpg_oracle::make_replay(prioritized);
      for (auto* r : {&replay, &theirs}) r->append(qpg_oracle::make_rollout());
      const auto sac = make_sac(*agent, replay,
                                {.learning_rate = 1e-2,
                                 .batch = kBatch,
                                 .tau = 0.1,
                                 .alpha = 0.3,
                                 .learn_alpha = learn_alpha,
                                 .beta_start = 0.3,
                                 .seed = 5});
      auto log_alpha = at::full({}, std::log(0.3), at::kDouble).requires_grad_();
      torch::optim::Adam adam({log_alpha}, 1e-2);
      for (std::uint64_t i = 0; i < 8; ++i) {
        const auto metrics = sac->update({.steps = 50, .schedule_steps = 100}, 1);
        const auto& batch = theirs.sample(kBatch, 0.65);
        const auto learned = oracle.learn(
            batch, {.tau = 0.1, .alpha = log_alpha.exp().item<double>(), .seed = 5, .number = i});
        if (prioritized) theirs.update_priorities(batch.index, learned.error + 1e-6);
        adam.zero_grad();
        (-log_alpha * (learned.log_prob - 2)).backward();
        if (learn_alpha) adam.step();
        EXPECT_NEAR(qpg_oracle::metric(metrics, "critic_loss"), learned.critic_loss, 1e-4);
        EXPECT_NEAR(qpg_oracle::metric(metrics, "policy_loss"), learned.policy_loss, 1e-5);
        EXPECT_NEAR(qpg_oracle::metric(metrics, "entropy"), -learned.log_prob, 1e-5);
        EXPECT_NEAR(qpg_oracle::metric(metrics, "alpha"), log_alpha.exp().item<double>(), 1e-6);
        ASSERT_LT(qpg_oracle::furthest(*agent, oracle), 2e-5) << "update " << i;
      }
      EXPECT_LT(
          (replay.sample(kBatch).weight - theirs.sample(kBatch).weight).abs().max().item<double>(),
          1e-4);
    }
  }
}

void expect_tensor_operations_learn_the_same(const QpgAgentOptions& options, double rate) {
  const auto fused = make_qpg_agent(qpg_oracle::toy_env(), options, 3),
             plain = make_qpg_agent(qpg_oracle::toy_env(), options, 3);
  auto replay = qpg_oracle::make_replay(true);
  replay.append(qpg_oracle::make_rollout());
  const auto ours = make_fused_learner(*fused, kBatch), theirs = make_tensor_learner(*plain);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto& batch = replay.sample(kBatch, 0.5);
    const QpgUpdate update{
        .critic_rate = rate, .policy_rate = rate, .tau = 0.1, .alpha = 0.2, .number = i};
    const auto a = ours->learn(batch, update), b = theirs->learn(batch, update);
    EXPECT_NEAR(a.critic_loss, b.critic_loss, 1e-4);
    EXPECT_NEAR(a.policy_loss, b.policy_loss, 1e-5);
    EXPECT_NEAR(a.log_prob, b.log_prob, 1e-5);
    EXPECT_NEAR(a.value, b.value, 1e-5);
    EXPECT_LT((a.error - b.error).abs().max().item<double>(), 1e-4);
    const auto mine = fused->parameters(), other = plain->parameters();
    for (const auto& [name, parameter] : mine)
      ASSERT_LT((parameter - other.at(name)).abs().max().item<double>(), 2e-5) << name;
  }
}

// Acting on a device gives the same actions.
TEST(SacTest, TensorOperationsLearnTheSame) {
  expect_tensor_operations_learn_the_same(kSmall, 1e-2);
}

// Layers with a transposed copy of their weights.
TEST(SacTest, TensorOperationsLearnTheSameInLargeLayers) {
  expect_tensor_operations_learn_the_same({.hidden = {130, 160}}, 1e-3);
}

// Rounding to 8 bits changes results by a few percent at most, and errors do not grow.
void expect_nearly_the_same(const QpgAgentOptions& options) {
  const auto rounded = make_qpg_agent(qpg_oracle::toy_env(), options, 3),
             plain = make_qpg_agent(qpg_oracle::toy_env(), options, 3);
  auto replay = qpg_oracle::make_replay(false);
  replay.append(qpg_oracle::make_rollout());
  const auto ours = make_fused_learner(*rounded, kBatch, Precision::kBf16),
             theirs = make_fused_learner(*plain, kBatch);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto& batch = replay.sample(kBatch);
    const QpgUpdate update{
        .critic_rate = 1e-3, .policy_rate = 1e-3, .tau = 0.1, .alpha = 0.2, .number = i};
    const auto a = ours->learn(batch, update), b = theirs->learn(batch, update);
    EXPECT_NEAR(a.critic_loss, b.critic_loss, 0.02 * b.critic_loss);
    EXPECT_NEAR(a.log_prob, b.log_prob, 0.02 * std::abs(b.log_prob));
    EXPECT_EQ(a.value == b.value, !panel_bf16()) << "rounded where that is faster";
  }
}
TEST(SacTest, Bf16LearnsNearlyTheSame) {
  expect_nearly_the_same(kSmall);
  expect_nearly_the_same({.hidden = {130, 160}});  // several panels of weight gradients
}

NamedTensors copied(const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, tensor] : tensors) out.add(name, tensor.detach().clone());
  return out;
}
void copy_into(const NamedTensors& from, const NamedTensors& to) {
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : from) to.at(name).copy_(tensor);
}

// At sizes for which two threads are used.
NamedTensors train(int threads, int updates, Precision precision) {
  at::set_num_threads(threads);
  const auto agent = make_qpg_agent(qpg_oracle::toy_env(), {}, 3);
  auto replay = qpg_oracle::make_replay(true);
  replay.append(qpg_oracle::make_rollout());
  const auto sac = make_sac(*agent, replay, {.learning_rate = 1e-3, .precision = precision});
  sac->update({}, updates);
  at::set_num_threads(1);
  return copied(agent->parameters());
}

TEST(SacTest, ThreadsDoNotMatter) {
  for (const auto precision : {Precision::kFloat32, Precision::kBf16}) {
    qpg_oracle::expect_equal(train(1, 3, precision), train(2, 3, precision));
    // With so many, each has too few rows of a layer for rounding to be worth it.
    qpg_oracle::expect_equal(train(1, 1, precision), train(40, 1, precision));
  }
}

TEST(SacTest, GoesOnFromItsState) {
  const auto whole = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3),
             again = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 4);
  auto replay = qpg_oracle::make_replay(true), other = qpg_oracle::make_replay(true);
  replay.append(qpg_oracle::make_rollout());
  const SacOptions options{.learning_rate = 1e-2, .batch = kBatch};
  const auto sac = make_sac(*whole, replay, options);
  sac->update({}, 3);
  const auto parameters = copied(whole->parameters()), state = copied(sac->state()),
             steps = copied(replay.save());
  sac->update({}, 3);
  const auto resumed = make_sac(*again, other, options);
  copy_into(parameters, again->parameters());
  copy_into(state, resumed->state());
  other.restore(steps);
  resumed->update({}, 3);
  qpg_oracle::expect_equal(whole->parameters(), again->parameters());
  qpg_oracle::expect_equal(sac->state(), resumed->state());
}

TEST(SacTest, RatesFallOverTheSchedule) {
  const auto falling = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3),
             steady = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  auto replay = qpg_oracle::make_replay(false), other = qpg_oracle::make_replay(false);
  for (auto* r : {&replay, &other}) r->append(qpg_oracle::make_rollout());
  const auto ours = make_sac(
      *falling, replay, {.learning_rate = 4e-3, .anneal_learning_rate = true, .batch = kBatch});
  const auto theirs = make_sac(*steady, other, {.learning_rate = 1e-3, .batch = kBatch});
  const auto mine = ours->update({.steps = 75, .schedule_steps = 100}, 4);
  EXPECT_EQ(mine, theirs->update({.steps = 75, .schedule_steps = 100}, 4));
  qpg_oracle::expect_equal(steady->parameters(), falling->parameters());
}

TEST(SacTest, ExploresAtRandomUntilItLearns) {
  const auto agent = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  auto replay = qpg_oracle::make_replay(false);
  const auto sac = make_sac(*agent, replay, {});
  sac->explore({}, false);
  EXPECT_EQ(agent->exploration()[0].item<float>(), 1);
  sac->explore({}, true);
  EXPECT_TRUE(at::equal(agent->exploration(), at::tensor({0.0F, 1.0F})));
}

TEST(SacTest, RefusesWhatMakesNoSense) {
  const auto agent = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  const auto deterministic = make_qpg_agent(qpg_oracle::toy_env(), {.stochastic = false}, 3);
  auto replay = qpg_oracle::make_replay(false);
  EXPECT_THROW(make_sac(*deterministic, replay, {}), Error);
  EXPECT_THROW(make_sac(*agent, replay, {.learning_rate = 0}), Error);
  EXPECT_THROW(make_sac(*agent, replay, {.batch = 0}), Error);
  EXPECT_THROW(make_sac(*agent, replay, {.tau = 0}), Error);
  EXPECT_THROW(make_sac(*agent, replay, {.alpha = 0}), Error);
  EXPECT_THROW(make_sac(*agent, replay, {.beta_end = 2}), Error);
  EXPECT_THROW(make_sac(*agent, replay, {})->update({}, 0), Error);
}

TEST(SacTest, ALossThatIsNotFiniteIsAnError) {
  const auto agent = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  auto replay = qpg_oracle::make_replay(false);
  auto rollout = qpg_oracle::make_rollout();
  rollout.reward.fill_(std::numeric_limits<double>::infinity());
  replay.append(rollout);
  const auto sac = make_sac(*agent, replay, {.batch = kBatch});
  const auto text =
      message_of<DataError>([&] { sac->update({.steps = 40, .schedule_steps = 100}, 1); });
  EXPECT_TRUE(text.starts_with("critic_loss of the update after 40 steps is ")) << text;
}

// Both learners given NaN.
void expect_the_same_nans(const std::function<void(QpgAgent&, const Transitions&)>& spoil) {
  const auto fused = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3),
             plain = make_qpg_agent(qpg_oracle::toy_env(), kSmall, 3);
  auto replay = qpg_oracle::make_replay(false);
  replay.append(qpg_oracle::make_rollout());
  const auto ours = make_fused_learner(*fused, kBatch), theirs = make_tensor_learner(*plain);
  const auto& batch = replay.sample(kBatch);
  for (auto* agent : {fused.get(), plain.get()}) spoil(*agent, batch);
  const QpgUpdate update{.critic_rate = 1e-3, .policy_rate = 1e-3, .tau = 0.1, .alpha = 0.2};
  const auto a = ours->learn(batch, update), b = theirs->learn(batch, update);
  EXPECT_TRUE(std::isnan(a.critic_loss) && std::isnan(b.critic_loss)) << a.critic_loss;
  EXPECT_TRUE(std::isnan(a.policy_loss) && std::isnan(b.policy_loss)) << a.policy_loss;
  const auto mine = fused->parameters(), other = plain->parameters();
  for (const auto& [name, parameter] : mine)
    EXPECT_EQ(parameter.isnan().any().item<bool>(), other.at(name).isnan().any().item<bool>())
        << name;
}

TEST(SacTest, NaNGoesThroughAsThroughTensorOperations) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  expect_the_same_nans([](QpgAgent&, const Transitions& batch) { batch.reward[3] = kNaN; });
  expect_the_same_nans(
      [](QpgAgent&, const Transitions& batch) { batch.next_observation[0].data[5][1] = kNaN; });
  for (const std::int64_t critic : {0, 1}) {
    SCOPED_TRACE(critic);
    expect_the_same_nans([&](QpgAgent& agent, const Transitions&) {
      agent.networks().target_critics[critic].fill_(kNaN);
    });
    expect_the_same_nans(
        [&](QpgAgent& agent, const Transitions&) { agent.networks().critics[critic].fill_(kNaN); });
  }
}

}  // namespace
}  // namespace shoal::sac_test
