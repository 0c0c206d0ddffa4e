#include "shoal/algos/dqn.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "algos/dqn/dqn_loss.h"
#include "shoal/core/error.h"
#include "tests/support/message_of.h"

namespace shoal::dqn_test {
namespace {

constexpr std::int64_t kWidth = 3, kActions = 4, kBatch = 16;

EnvSpec toy_env(bool masked) {
  EnvSpec env;
  env.id = "Toy";
  env.observation = ArraySpec{.shape = {kWidth}};
  env.action = ActionSpec::discrete(kActions);
  env.action_mask = masked;
  return env;
}

// Steps of two environments; some end, none is truncated.
Samples make_rollout(bool masked) {
  const std::int64_t T = 40, B = 2;
  torch::manual_seed(9);
  const auto flags = at::TensorOptions().dtype(at::kBool);
  Samples s;
  s.T = T;
  s.B = B;
  s.observation = at::randn({T + 1, B, kWidth});
  s.action = at::randint(0, kActions, {T, B}, at::kLong);
  s.reward = 3 * at::randn({T, B});
  s.terminated = at::rand({T, B}).lt(0.2);
  s.truncated = at::zeros({T, B}, flags);
  s.valid = at::ones({T, B}, flags);
  s.is_first = at::cat({at::ones({1, B}, flags), s.terminated});
  if (masked) {
    const auto mask = at::rand({T + 1, B, kActions}).lt(0.6);
    mask.select(2, 1).fill_(true);
    s.mask = mask;
  }
  s.final_obs.observation = Observed{at::empty({0, kWidth}), {}};
  return s;
}

struct Learner {
  Learner(bool masked, bool prioritized, const DqnOptions& options,
          const QAgentOptions& agent_options = {})
      : agent(make_q_agent(toy_env(masked), ModelOptions{.hidden = {8}}, agent_options, 3)),
        replay(toy_env(masked), 2,
               {.size = 80, .n_step = 2, .discount = 0.9, .prioritized = prioritized}),
        dqn(make_dqn(*agent, replay, options)) {
    replay.append(make_rollout(masked));
    torch::NoGradGuard no_grad;
    torch::manual_seed(4);
    for (auto& parameter : agent->learnable()) parameter.add_(at::randn_like(parameter), 0.3);
    agent->parameters_changed();
  }
  std::unique_ptr<QAgent> agent;
  StepReplay replay;
  std::unique_ptr<OffPolicyAlgo> dqn;
};

double metric(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  throw std::out_of_range(name);
}

// The loss of one batch, sample by sample, with gradients; from an agent of its own.
at::Tensor loss_by_hand(QAgent& agent, const Transitions& batch, const DqnOptions& o) {
  auto sum = at::zeros({});
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const auto row = at::tensor({i}, at::kLong);
    const auto next = select(batch.next_observation, row);
    const auto online = agent.values(next).detach()[0], target = agent.target_values(next)[0];
    std::int64_t best = -1;
    for (std::int64_t a = 0; a < kActions; ++a) {
      if (!batch.next_mask.empty() && !batch.next_mask[0][i][a].item<bool>()) continue;
      const auto& by = o.double_q ? online : target;
      if (best < 0 || by[a].item<float>() > by[best].item<float>()) best = a;
    }
    const float wanted = batch.reward[i].item<float>() +
                         batch.discount[i].item<float>() * target[best].item<float>();
    const auto value =
        agent.values(select(batch.observation, row))[0][batch.action[0][i].item<std::int64_t>()];
    const auto error = value - wanted;
    const double size = std::abs(error.item<double>());
    const auto loss = o.huber_delta > 0 && size > o.huber_delta
                          ? o.huber_delta * (error.abs() - o.huber_delta / 2)
                          : 0.5 * error * error;
    sum = sum + batch.weight[i].item<float>() * loss;
  }
  return sum / kBatch;
}

TEST(DqnTest, OneUpdateIsAdamsStepOnTheLossByHand) {
  for (const bool masked : {false, true}) {
    for (const bool prioritized : {false, true}) {
      for (const bool double_q : {false, true}) {
        for (const double huber_delta : {0.0, 1.0}) {
          SCOPED_TRACE(fmt::format("masked {}, prioritized {}, double {}, huber_delta {}", masked,
                                   prioritized, double_q, huber_delta));
          const DqnOptions options{.learning_rate = 0.01,
                                   .optimizer_epsilon = 1e-5,
                                   .batch = kBatch,
                                   .double_q = double_q,
                                   .huber_delta = huber_delta,
                                   .max_grad_norm = 0.5,
                                   .beta_start = 0.3};
          Learner ours(masked, prioritized, options), theirs(masked, prioritized, options);
          if (prioritized)
            for (auto* learner : {&ours, &theirs})
              learner->replay.update_priorities(at::arange(70, at::kLong),
                                                at::arange(1, 71, at::kFloat));
          const Progress progress{.steps = 50, .schedule_steps = 100};
          const auto metrics = ours.dqn->update(progress, 1);

          auto learnable = theirs.agent->learnable();
          torch::optim::Adam adam(learnable, torch::optim::AdamOptions(0.01).eps(1e-5));
          const auto& batch = theirs.replay.sample(kBatch, 0.65);
          const auto loss = loss_by_hand(*theirs.agent, batch, options);
          loss.backward();
          for (auto& parameter : learnable)
            if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
          const auto norm = torch::nn::utils::clip_grad_norm_(learnable, 0.5);
          adam.step();
          EXPECT_NEAR(metric(metrics, "loss"), loss.item<double>(), 1e-4);
          EXPECT_NEAR(metric(metrics, "grad_norm"), norm, 1e-4);
          const auto got = ours.agent->learnable();
          for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_LT((got[i] - learnable[i]).abs().max().item<double>(), 1e-5) << i;
        }
      }
    }
  }
}

// The action is chosen by means, its returns are learned, and a noisy network's deviations, too.
at::Tensor loss_of_returns(QAgent& agent, const Transitions& batch) {
  const auto next = agent.target_returns(batch.next_observation);
  const auto chosen = agent.values(batch.next_observation).detach().argmax(1);
  const auto returns = agent.returns(batch.observation);
  auto sum = at::zeros({});
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const auto of_next = next[i][chosen[i].item<std::int64_t>()].unsqueeze(0);
    const auto own = returns[i][batch.action[0][i].item<std::int64_t>()].unsqueeze(0);
    const auto reward = batch.reward.narrow(0, i, 1), discount = batch.discount.narrow(0, i, 1);
    const auto losses =
        agent.options().returns == ReturnKind::kCategorical
            ? categorical_losses(project(of_next.softmax(1), reward, discount, agent.support()),
                                 own)
            : quantile_losses(reward + discount * of_next, own, 1);
    sum = sum + batch.weight[i].item<float>() * losses.loss[0];
  }
  return sum / kBatch;
}

TEST(DqnTest, OneUpdateOfReturnsIsAdamsStep) {
  for (const auto kind : {ReturnKind::kCategorical, ReturnKind::kQuantile}) {
    for (const bool noisy : {false, true}) {
      SCOPED_TRACE(fmt::format("kind {}, noisy {}", static_cast<int>(kind), noisy));
      const QAgentOptions agent_options{
          .dueling = true, .returns = kind, .atoms = 9, .noisy = noisy};
      const DqnOptions options{.learning_rate = 0.01, .batch = kBatch, .max_grad_norm = 0};
      Learner ours(false, true, options, agent_options),
          theirs(false, true, options, agent_options);
      ours.dqn->update({.steps = 50, .schedule_steps = 100}, 1);

      theirs.agent->draw_noise();
      const auto& batch = theirs.replay.sample(kBatch, 0.7);
      auto learnable = theirs.agent->learnable();
      torch::optim::Adam adam(learnable, torch::optim::AdamOptions(0.01).eps(1e-5));
      const auto gradients = theirs.agent->gradients(loss_of_returns(*theirs.agent, batch));
      for (std::size_t i = 0; i < learnable.size(); ++i) learnable[i].mutable_grad() = gradients[i];
      adam.step();
      const auto got = ours.agent->learnable();
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LT((got[i] - learnable[i]).abs().max().item<double>(), 1e-5) << i;
    }
  }
}

TEST(DqnTest, ErrorsBecomePriorities) {
  Learner learner(false, true, {.learning_rate = 1e-9, .batch = 64, .target_interval = 1000});
  for (int i = 0; i < 20; ++i) learner.dqn->update({.steps = 0, .schedule_steps = 1}, 1);
  const auto& batch = learner.replay.sample(1000);
  const auto value =
      learner.agent->values(batch.observation).gather(1, batch.action[0].unsqueeze(1));
  const auto next = learner.agent->values(batch.next_observation).argmax(1, true);
  const auto wanted =
      batch.reward +
      batch.discount *
          learner.agent->target_values(batch.next_observation).gather(1, next).squeeze(1);
  const auto error = (wanted - value.squeeze(1)).abs();
  // (p_least / p)^alpha
  const auto want = (error.min() / error).pow(0.6);
  EXPECT_LT((batch.weight - want).abs().max().item<double>(), 1e-3);
}

TEST(DqnTest, TheTargetNetworkMovesEverySoManyUpdates) {
  Learner learner(false, false, {.learning_rate = 0.1, .batch = 8, .target_interval = 3});
  const Observations seen = Observed{at::randn({4, kWidth}), {}};
  auto before = learner.agent->target_values(seen);
  for (int i = 1; i <= 6; ++i) {
    learner.dqn->update({}, 1);
    const auto now = learner.agent->target_values(seen);
    EXPECT_EQ(at::equal(now, before), i % 3 != 0) << i;
    if (i % 3 == 0) {
      EXPECT_TRUE(at::equal(now, learner.agent->values(seen)));
    }
    before = now;
  }
  EXPECT_EQ(learner.dqn->state().at("updates").item<std::int64_t>(), 6);
}

TEST(DqnTest, EpsilonFallsOverItsShareOfTheSchedule) {
  const DqnOptions options{.epsilon_start = 0.9, .epsilon_end = 0.1, .exploration_fraction = 0.5};
  Learner learner(false, false, options);
  const auto epsilon_at = [&](std::int64_t steps, bool learning) {
    learner.dqn->explore({.steps = steps, .schedule_steps = 100}, learning);
    return learner.agent->epsilon().item<float>();
  };
  EXPECT_FLOAT_EQ(epsilon_at(40, false), 1) << "nothing has been learned yet";
  EXPECT_FLOAT_EQ(epsilon_at(0, true), 0.9F);
  EXPECT_FLOAT_EQ(epsilon_at(25, true), 0.5F);
  EXPECT_FLOAT_EQ(epsilon_at(50, true), 0.1F);
  EXPECT_FLOAT_EQ(epsilon_at(200, true), 0.1F);
}

TEST(DqnTest, NoiseExploresWithoutEpsilon) {
  Learner learner(false, false, {}, {.noisy = true});
  const auto epsilon_at = [&](std::int64_t steps, bool learning) {
    learner.dqn->explore({.steps = steps, .schedule_steps = 100}, learning);
    return learner.agent->epsilon().item<float>();
  };
  EXPECT_EQ(epsilon_at(10, false), 1) << "nothing has been learned yet";
  EXPECT_EQ(epsilon_at(10, true), 0);
}

TEST(DqnTest, EveryEnvironmentMayHaveAnEpsilonOfItsOwn) {
  const auto agent = make_q_agent(toy_env(false), ModelOptions{.hidden = {8}}, {.epsilons = 3}, 3);
  StepReplay replay(toy_env(false), 3, {.size = 80});
  const auto dqn = make_dqn(*agent, replay, {.epsilon_end = 0.1, .epsilon_last = 0.001});
  dqn->explore({.steps = 100, .schedule_steps = 100}, true);
  EXPECT_TRUE(at::allclose(agent->epsilon(), at::tensor({0.1F, 0.01F, 0.001F})));
  dqn->explore({.steps = 100, .schedule_steps = 100}, false);
  EXPECT_TRUE(at::equal(agent->epsilon(), at::ones({3})));
}

TEST(DqnTest, ALossThatIsNotFiniteIsAnError) {
  Learner learner(false, false, {.learning_rate = 0.1, .batch = 8, .max_grad_norm = 1});
  auto rollout = make_rollout(false);
  rollout.reward.fill_(std::numeric_limits<float>::infinity());
  rollout.first_tick = rollout.T;
  rollout.is_first[0].fill_(true);
  learner.replay.append(rollout);
  EXPECT_TRUE(message_of<DataError>([&] {
                learner.dqn->update({.steps = 40}, 1);
              }).starts_with("loss of the update after 40 steps is "));
}

TEST(DqnTest, RefusesWhatMakesNoSense) {
  const auto agent = make_q_agent(toy_env(false), ModelOptions{}, {}, 1);
  StepReplay replay(toy_env(false), 2, {.size = 80});
  EXPECT_THROW(make_dqn(*agent, replay, {.learning_rate = 0}), Error);
  EXPECT_THROW(make_dqn(*agent, replay, {.batch = 0}), Error);
  EXPECT_THROW(make_dqn(*agent, replay, {.target_interval = 0}), Error);
  EXPECT_THROW(make_dqn(*agent, replay, {.tau = 2}), Error);
  EXPECT_THROW(make_dqn(*agent, replay, {.huber_delta = -1}), Error);
  EXPECT_THROW(make_dqn(*agent, replay, {.beta_end = 1.1}), Error);
  EXPECT_THROW(make_dqn(*agent, replay, {.epsilon_end = -1}), Error);
  EXPECT_THROW(make_dqn(*agent, replay, {.exploration_fraction = 0}), Error);
  Learner learner(false, false, {});
  EXPECT_THROW(learner.dqn->update({}, 0), Error);
}

}  // namespace
}  // namespace shoal::dqn_test
