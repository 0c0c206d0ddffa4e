#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>

#include "shoal/algos/ppo.h"
#include "tests/algos/rollouts.h"
#include "tests/algos/spy_agent.h"

namespace shoal {
namespace {

using RewardOf = std::function<at::Tensor(const at::Tensor& observation, const at::Tensor& action)>;

// A rollout of one-step episodes: the agent acts on observations of its world and is paid at once.
Samples play(ActorCritic& agent, const at::Tensor& observation, const RewardOf& reward_of,
             std::int64_t first_tick) {
  const auto T = observation.size(0) - 1, B = observation.size(1);
  const bool real = agent.spec().info.contains("raw");  // one real number instead of a choice
  const auto raw = at::zeros({T, B, 1});
  const auto action = real ? at::zeros({T, B, 1}) : at::zeros({T, B}, at::kLong);
  CapturedGraph r{observation, action, at::zeros({T, B}), at::zeros({T, B}), {}};
  for (std::int64_t t = 0; t < T; ++t) {
    ActOut out{.action = r.action[t],
               .agent_info = {{"log_prob", r.log_prob[t]}, {"value", r.value[t]}}};
    if (real) out.agent_info.add("raw", raw[t]);
    agent.act(
        {.observation = Observed{observation[t], {}}, .noise = {.seed = 1, .tick = first_tick + t}},
        out);
  }
  r.reward = reward_of(observation.narrow(0, 0, T), r.action);
  auto s = make_rollout(r);
  if (real) s.agent_info.add("raw", raw);
  s.terminated.fill_(true);
  return s;
}

// Probability of each action at each observation.
at::Tensor probabilities(ActorCritic& agent, const at::Tensor& observation, std::int64_t choices) {
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> columns;
  for (std::int64_t a = 0; a < choices; ++a)
    columns.push_back(agent
                          .evaluate({.observation = Observed{observation, {}},
                                     .action = at::full({observation.size(0)}, a, at::kLong)})
                          .log_prob.exp());
  return at::stack(columns, 1);
}

bool all_finite(ActorCritic& agent, const Metrics& metrics) {
  for (const auto& p : agent.learnable())
    if (!at::isfinite(p).all().item<bool>()) return false;
  return std::all_of(metrics.begin(), metrics.end(),
                     [](const auto& m) { return std::isfinite(m.second); });
}

TEST(PpoLearningTest, TwoArmedBanditPrefersTheArmThatPays) {
  auto agent = make_spy(1, 2);
  const auto ppo =
      make_ppo(agent, {.learning_rate = 0.01, .clip = 0.2, .anneal_learning_rate = false});
  const auto world = at::ones({17, 8, 1});
  for (int i = 0; i < 25; ++i) {
    const auto pays = [](const at::Tensor&, const at::Tensor& action) {
      return action.eq(1).to(at::kFloat);
    };
    const auto metrics =
        ppo->update(play(agent, world, pays, i * 16), {.steps = 0, .schedule_steps = 1});
    ASSERT_TRUE(all_finite(agent, metrics)) << "update " << i;
  }
  EXPECT_GT(probabilities(agent, at::ones({1, 1}), 2)[0][1].item<double>(), 0.9);
}

// The rewarded arm depends on the observation; the value learns the reward.
TEST(PpoLearningTest, ContextDecidesWhichOfThreeArmsPays) {
  torch::manual_seed(1);
  auto agent = make_spy(3, 3);
  const auto ppo =
      make_ppo(agent, {.learning_rate = 0.01, .clip = 0.2, .anneal_learning_rate = false});
  const auto pays = [](const at::Tensor& observation, const at::Tensor& action) {
    return observation.argmax(2).eq(action).to(at::kFloat);
  };
  Metrics metrics;
  for (int i = 0; i < 50; ++i) {
    const auto world = at::one_hot(at::randint(0, 3, {17, 8}, at::kLong), 3).to(at::kFloat);
    metrics = ppo->update(play(agent, world, pays, i * 16), {.steps = 0, .schedule_steps = 1});
  }
  const auto right = probabilities(agent, at::eye(3), 3).diagonal();
  EXPECT_GT(right.min().item<double>(), 0.9) << right;
  for (const auto& [name, value] : metrics) {
    if (name == "value_loss") {
      EXPECT_LT(value, 0.1);
    }
  }
}

// The best force is the observation's, and the deviation shrinks; clipped or squashed.
TEST(PpoLearningTest, FindsTheForceThatContextAsksFor) {
  for (const bool squash : {false, true}) {
    torch::manual_seed(1);
    const EnvSpec spec{
        .id = "Toy", .observation = ArraySpec{.shape = {1}}, .action = ActionSpec::box(1, -2, 2)};
    const auto agent = make_actor_critic(spec, {.hidden = {16}}, {.squash = squash}, 1);
    const auto ppo = make_ppo(
        *agent,
        {.learning_rate = 0.01, .clip = 0.2, .entropy_coef = 0, .anneal_learning_rate = false});
    const auto pays = [](const at::Tensor& observation, const at::Tensor& action) {
      return -(action - observation).squeeze(2).square();
    };
    for (int i = 0; i < 80; ++i) {
      const auto world = at::rand({33, 16, 1}) * 2 - 1;
      ppo->update(play(*agent, world, pays, i * 32), {.steps = 0, .schedule_steps = 1});
    }
    const auto world = at::rand({2, 200, 1}) * 2 - 1;
    EXPECT_GT(play(*agent, world, pays, 1).reward.mean().item<double>(), -0.1)
        << (squash ? "squashed" : "cut");
    EXPECT_LT(agent->parameters().at("log_std").item<double>(), std::log(0.5));
  }
}

struct Hard {
  const char* what;
  std::function<Samples()> make;
};

std::vector<Hard> hard_rollouts() {
  const auto changed = [](const std::function<void(Samples&)>& change) {
    return [change] {
      auto s = random_rollout(6, 4, 3, 4);
      change(s);
      return s;
    };
  };
  return {{"huge rewards", changed([](Samples& s) { s.reward.mul_(1e6); })},
          {"no rewards and no values",
           changed([](Samples& s) { s.reward.zero_(), s.agent_info.at("value").zero_(); })},
          {"huge observations", changed([](Samples& s) { s.observed[0].data.mul_(1e6); })},
          {"actions that were nearly impossible",
           changed([](Samples& s) { s.agent_info.at("log_prob").fill_(-30); })},
          {"actions that were certain",
           changed([](Samples& s) { s.agent_info.at("log_prob").zero_(); })},
          {"one legal action", changed([](Samples& s) {
             auto mask = at::zeros({7, 4, 4}, at::kBool);
             mask.narrow(0, 0, 6).scatter_(2, s.action[0].unsqueeze(2), true);
             mask[6].fill_(true);
             s.mask = mask;
           })},
          {"one step of one environment", [] { return random_rollout(1, 1, 3, 4); }}};
}

TEST(PpoLearningTest, StaysFiniteOnHardRollouts) {
  torch::manual_seed(2);
  for (const auto& hard : hard_rollouts()) {
    for (const double value_clip : {0.0, 0.2}) {
      const auto s = hard.make();
      auto agent = make_spy(3, 4);
      const auto ppo = make_ppo(agent, {.epochs = 3,
                                        .minibatches = s.T * s.B == 1 ? 1 : 8,
                                        .value_clip = value_clip,
                                        .target_kl = 1e9});
      for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(all_finite(agent, ppo->update(s, {.steps = 0, .schedule_steps = 1})))
            << hard.what;
    }
  }
}

}  // namespace
}  // namespace shoal
