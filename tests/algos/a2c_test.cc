#include "shoal/algos/a2c.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "shoal/algos/returns.h"
#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "tests/algos/rollouts.h"
#include "tests/algos/spy_agent.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

constexpr std::int64_t kSteps = 5, kEnvs = 8, kWidth = 3, kChoices = 4;

EvaluateIn all_of(const Samples& s) {
  return {.observation = Observed{s.observation[0].narrow(0, 0, kSteps).flatten(0, 1), {}},
          .action = s.action[0].flatten()};
}

// A rollout that the agent itself might have made.
Samples rollout_of(ActorCritic& agent) {
  torch::NoGradGuard no_grad;
  auto s = random_rollout(kSteps, kEnvs, kWidth, kChoices);
  const auto now = agent.evaluate(all_of(s));
  s.agent_info = {{"log_prob", now.log_prob.view({kSteps, kEnvs})},
                  {"value", now.value.view({kSteps, kEnvs})}};
  s.terminated[2][1] = true;
  return s;
}

TEST(A2cTest, UpdateEqualsTheTextbookOne) {
  for (const bool normalize : {false, true}) {
    torch::manual_seed(1);
    auto agent = make_spy(kWidth, kChoices), other = make_spy(kWidth, kChoices);
    const auto s = rollout_of(agent);
    const A2cOptions o{.gae_lambda = 0.9, .normalize_advantage = normalize};
    make_a2c(agent, o)->update(s, {.steps = 0, .schedule_steps = 10});

    auto [advantage, target] =
        generalized_advantages(s, s.agent_info.at("value"), o.discount, o.gae_lambda);
    advantage = advantage.flatten();
    if (normalize) advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8);
    const auto now = other.evaluate(all_of(s));
    const auto learnable = other.learnable();
    torch::optim::Adam adam(learnable,
                            torch::optim::AdamOptions(o.learning_rate).eps(o.optimizer_epsilon));
    const auto loss = -(now.log_prob * advantage).mean() +
                      o.value_coef * 0.5 * (now.value - target.flatten()).square().mean() -
                      o.entropy_coef * now.entropy.mean();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(learnable, o.max_grad_norm);
    adam.step();
    const auto learned = agent.learnable();
    for (std::size_t i = 0; i < learned.size(); ++i)
      EXPECT_TRUE(at::allclose(learned[i], learnable[i], 0, 1e-6)) << "parameter " << i;
  }
}

TEST(A2cTest, LearnsOnceFromEachRollout) {
  auto agent = make_spy(kWidth, kChoices);
  const auto s = rollout_of(agent);
  const auto algo = make_a2c(agent, {});
  agent.asked.clear();
  algo->update(s, {.steps = 0, .schedule_steps = 10});
  ASSERT_EQ(agent.asked.size(), 1u);
  EXPECT_EQ(agent.asked[0].action[0].size(0), kSteps * kEnvs);
  EXPECT_EQ(agent.changes, 1);
}

TEST(A2cTest, ALossThatIsNotFiniteIsAnError) {
  auto agent = make_spy(kWidth, kChoices);
  auto s = rollout_of(agent);
  s.reward[1][1] = std::numeric_limits<double>::infinity();
  const auto text = message_of<DataError>(
      [&] { make_a2c(agent, {})->update(s, {.steps = 40, .schedule_steps = 100}); });
  EXPECT_TRUE(text.starts_with("policy_loss of the update after 40 steps is ")) << text;
}

TEST(A2cTest, AGradientThatIsNotFiniteIsAnError) {
  auto agent = make_spy(kWidth, kChoices);
  const auto s = rollout_of(agent);
  s.reward.mul_(1e12);  // the gradient is finite, but not its square
  const auto text = message_of<DataError>([&] {
    make_a2c(agent, {.value_coef = 1e9})->update(s, {.steps = 40, .schedule_steps = 100});
  });
  EXPECT_TRUE(text.starts_with("grad_norm of the update after 40 steps is inf")) << text;
}

TEST(A2cTest, RefusesWhatMakesNoSense) {
  auto agent = make_spy(kWidth, kChoices);
  EXPECT_THROW(make_a2c(agent, {.learning_rate = 0}), Error);
  EXPECT_THROW(make_a2c(agent, {.discount = 1.1}), Error);
  EXPECT_THROW(make_a2c(agent, {.gae_lambda = -0.1}), Error);
}

}  // namespace
}  // namespace shoal
