#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/algos/a2c.h"
#include "shoal/algos/ppo.h"
#include "shoal/algos/returns.h"
#include "shoal/core/error.h"
#include "shoal/models/actor_critic.h"
#include "tests/algos/rollouts.h"
#include "tests/algos/spy_agent.h"
#include "tests/models/recurrent_oracle.h"

// Learning with a recurrent agent.
namespace shoal::ppo_memory_test {
namespace {

constexpr std::int64_t kSteps = 7, kEnvs = 6, kWidth = 3, kChoices = 4, kUnits = 5;
const Progress kStart{.steps = 0, .schedule_steps = 1000};

struct Learner {
  std::shared_ptr<ActorCriticModel> model;
  SpyAgent agent;
};

Learner make_learner(MemoryKind memory) {
  const EnvSpec spec{.id = "Toy",
                     .observation = ArraySpec{.shape = {kWidth}},
                     .action = ActionSpec::discrete(kChoices)};
  auto model = make_model(spec.observation, kChoices,
                          {.hidden = {6}, .memory = memory, .memory_size = kUnits}, 1, spec.action);
  return {model, SpyAgent(make_actor_critic(spec, model))};
}

// Episodes start now and then; with `waits`, steps after some of them are invalid.
Samples remembered_rollout(const ActorCriticModel& model, bool waits) {
  torch::manual_seed(2);
  auto s = random_rollout(kSteps, kEnvs, kWidth, kChoices);
  s.is_first = at::rand({kSteps + 1, kEnvs}).lt(0.2);
  s.terminated = s.is_first.narrow(0, 1, kSteps).clone();
  s.previous_action = at::randint(0, kChoices, {kSteps + 1, kEnvs}, at::kLong);
  s.previous_reward = at::randn({kSteps + 1, kEnvs});
  for (const auto& [name, spec] : model.state()) {
    auto shape = spec.shape;
    shape.insert(shape.begin(), kEnvs);
    s.initial_state.add(name, at::randn(shape));
  }
  s.observed[0].data.select(1, 0).copy_(at::arange((kSteps + 1) * kEnvs));  // names the rows
  if (waits) {
    s.valid[5].narrow(0, 1, 3).fill_(false);
    s.valid[6].narrow(0, 1, 4).fill_(false);
    s.steps -= 7;
  }
  return s;
}

ModelIn whole(const Samples& s) {
  ModelIn in{.observation = Observed{s.observed[0].data.narrow(0, 0, kSteps * kEnvs), {}},
             .state = s.initial_state,
             .is_first = s.is_first.narrow(0, 0, kSteps).flatten(),
             .time = kSteps,
             .previous_action = {},
             .previous_reward = s.previous_reward.narrow(0, 0, kSteps).flatten()};
  in.previous_action = s.previous_action[0].narrow(0, 0, kSteps).flatten();
  return in;
}

// A2C's loss over the valid steps, unrolled by hand.
at::Tensor loss_by_hand(RecurrentByHand& by_hand, const Samples& s, const PpoOptions& o) {
  const auto valid = s.valid.flatten().nonzero().flatten();
  const auto gae = generalized_advantages(s, s.agent_info.at("value"), o.discount, o.gae_lambda);
  const auto heads = by_hand(whole(s));
  const auto log_probs = heads.policy.log_softmax(1);
  const auto pick = [&](const at::Tensor& x) {
    return x.flatten().to(at::kDouble).index_select(0, valid);
  };
  const auto log_prob = pick(log_probs.gather(1, s.action[0].flatten().unsqueeze(1)).squeeze(1));
  const auto entropy = pick(-(log_probs.exp() * log_probs).sum(1));
  const auto ratio = (log_prob - pick(s.agent_info.at("log_prob"))).exp();
  const auto policy = -at::min(ratio * pick(gae.advantage),
                               ratio.clamp(1 - o.clip, 1 + o.clip) * pick(gae.advantage));
  const auto error = (pick(heads.value) - pick(gae.target)).square();
  return policy.mean() + o.value_coef * 0.5 * error.mean() - o.entropy_coef * entropy.mean();
}

// With an epsilon this large, a step of Adam is the gradient times rate / epsilon.
TEST(PpoMemoryTest, AnUpdateFollowsTheGradientOfTheUnrolledSequences) {
  for (const auto memory : {MemoryKind::kLstm, MemoryKind::kGru}) {
    for (const bool waits : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(memory), waits));
      auto learner = make_learner(memory);
      randomize(*learner.model);
      const auto s = remembered_rollout(*learner.model, waits);
      RecurrentByHand by_hand(*learner.model, kChoices);
      const PpoOptions o{.learning_rate = 1e5,
                         .optimizer_epsilon = 1e6,
                         .epochs = 1,
                         .minibatches = 1,
                         .clip = 0.5,
                         .max_grad_norm = 0,
                         .normalize_advantage = NormalizeAdvantage::kNone};
      make_ppo(learner.agent, o)->update(s, kStart);
      loss_by_hand(by_hand, s, o).backward();
      for (const auto& item : learner.model->named_parameters()) {
        const auto& before = by_hand.parameters[item.key()];
        const auto wanted = before.detach() - 0.1 * before.grad();
        EXPECT_LT((item.value().detach() - wanted).abs().max().item<double>(), 2e-6) << item.key();
      }
    }
  }
}

TEST(PpoMemoryTest, A2cLikewise) {
  auto learner = make_learner(MemoryKind::kLstm);
  randomize(*learner.model);
  auto s = remembered_rollout(*learner.model, false);
  RecurrentByHand by_hand(*learner.model, kChoices);
  // As if the agent had acted so.
  const auto log_probs = by_hand(whole(s)).policy.detach().log_softmax(1);
  s.agent_info.at("log_prob") =
      log_probs.gather(1, s.action[0].flatten().unsqueeze(1)).view({kSteps, kEnvs}).to(at::kFloat);
  const A2cOptions o{.learning_rate = 1e5, .optimizer_epsilon = 1e6, .max_grad_norm = 0};
  make_a2c(learner.agent, o)->update(s, kStart);
  loss_by_hand(by_hand, s, {.discount = o.discount, .gae_lambda = o.gae_lambda, .clip = 1e9})
      .backward();
  for (const auto& item : learner.model->named_parameters()) {
    const auto& before = by_hand.parameters[item.key()];
    const auto wanted = before.detach() - 0.1 * before.grad();
    EXPECT_LT((item.value().detach() - wanted).abs().max().item<double>(), 2e-6) << item.key();
  }
}

TEST(PpoMemoryTest, AMinibatchIsAllStepsOfSomeEnvironments) {
  auto learner = make_learner(MemoryKind::kGru);
  const auto s = remembered_rollout(*learner.model, true);
  make_ppo(learner.agent, {.epochs = 2, .minibatches = 4})->update(s, kStart);
  ASSERT_EQ(learner.agent.asked.size(), 2u * 4);
  std::vector<int> times(kEnvs, 0);
  for (const auto& in : learner.agent.asked) {
    EXPECT_EQ(in.time, kSteps);
    const auto rows = in.observation[0].data.select(1, 0).to(at::kLong);
    const auto envs = rows.narrow(0, 0, rows.size(0) / kSteps);
    for (std::int64_t i = 0; i < envs.size(0); ++i)
      ++times[static_cast<std::size_t>(envs[i].item<std::int64_t>())];
    EXPECT_TRUE(
        at::equal(rows, (at::arange(kSteps).unsqueeze(1) * kEnvs + envs).flatten().to(at::kLong)));
    const auto of = [&](const at::Tensor& x) { return x.flatten(0, 1).index_select(0, rows); };
    EXPECT_TRUE(at::equal(in.action[0], of(s.action[0])));
    EXPECT_TRUE(at::equal(in.previous_action[0], of(s.previous_action[0])));
    EXPECT_TRUE(at::equal(in.previous_reward, of(s.previous_reward)));
    EXPECT_TRUE(at::equal(in.is_first, of(s.is_first)));
    EXPECT_TRUE(at::equal(in.state[0], s.initial_state[0].index_select(0, envs)));
  }
  EXPECT_EQ(times, std::vector<int>(kEnvs, 2)) << "each environment once in a pass";
}

TEST(PpoMemoryTest, MoreMinibatchesThanEnvironmentsAreAnError) {
  auto learner = make_learner(MemoryKind::kLstm);
  const auto s = remembered_rollout(*learner.model, false);
  EXPECT_THROW(make_ppo(learner.agent, {.minibatches = kEnvs + 1})->update(s, kStart), Error);
  make_ppo(learner.agent, {.minibatches = kEnvs})->update(s, kStart);
}

}  // namespace
}  // namespace shoal::ppo_memory_test
