#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "shoal/algos/a2c.h"
#include "shoal/algos/impala.h"
#include "shoal/algos/ppo.h"
#include "shoal/algos/returns.h"
#include "shoal/core/error.h"
#include "tests/algos/rollouts.h"
#include "tests/algos/spy_agent.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

namespace vtrace_test {

Samples rollout_with_ends(std::int64_t T, std::int64_t B, double ends) {
  auto s = random_rollout(T, B, 3, 4);
  s.terminated = at::rand({T, B}).lt(ends);
  s.truncated = at::rand({T, B}).lt(ends);  // sometimes both
  s.final_value =
      at::where(s.truncated.logical_and(s.terminated.logical_not()), at::randn({T, B}) * 3, 0.0F);
  s.bootstrap_value = at::randn({B});
  return s;
}

// Equation 1 of the paper, with a sum over all later steps and a product of all traces between, for
// every step.
VTrace by_hand(const Samples& s, const at::Tensor& value, const at::Tensor& log_ratio,
               const VTraceOptions& o) {
  const auto r = s.reward.accessor<float, 2>(), v = value.accessor<float, 2>(),
             log_r = log_ratio.accessor<float, 2>();
  const auto over = [&](std::int64_t t, std::int64_t b) {
    return (s.terminated[t][b].item<bool>() || s.truncated[t][b].item<bool>());
  };
  const auto following = [&](std::int64_t t, std::int64_t b) -> double {
    if (s.terminated[t][b].item<bool>()) return 0;
    if (s.truncated[t][b].item<bool>()) return s.final_value[t][b].item<float>();
    return t + 1 < s.T ? v[t + 1][b] : s.bootstrap_value[b].item<float>();
  };
  VTrace out{at::zeros({s.T, s.B}), at::zeros({s.T, s.B}), at::zeros({s.T, s.B})};
  for (std::int64_t b = 0; b < s.B; ++b) {
    for (std::int64_t first = 0; first < s.T; ++first) {
      double sum = v[first][b];
      for (auto t = first; t < s.T && s.valid[t][b].item<bool>(); ++t) {
        double weight = std::pow(o.discount, t - first);
        for (auto i = first; i < t; ++i)
          weight *= o.lambda * std::min(o.c_bar, std::exp(static_cast<double>(log_r[i][b])));
        const double rho = std::min(o.rho_bar, std::exp(static_cast<double>(log_r[t][b])));
        sum += weight * rho * (r[t][b] + o.discount * following(t, b) - v[t][b]);
        if (over(t, b)) break;
      }
      out.target[first][b] = sum;
      out.rho[first][b] = std::min(o.rho_bar, std::exp(static_cast<double>(log_r[first][b])));
    }
    for (std::int64_t t = 0; t < s.T; ++t) {
      const double next =
          over(t, b) || t + 1 == s.T ? following(t, b) : out.target[t + 1][b].item<float>();
      out.advantage[t][b] = r[t][b] + o.discount * next - v[t][b];
    }
  }
  return out;
}

void expect_close(const VTrace& a, const VTrace& b, const std::string& what) {
  EXPECT_TRUE(at::allclose(a.target, b.target, 1e-4, 1e-4)) << what;
  EXPECT_TRUE(at::allclose(a.advantage, b.advantage, 1e-4, 1e-4)) << what;
  EXPECT_TRUE(at::allclose(a.rho, b.rho, 1e-5, 1e-5)) << what;
}

TEST(VTraceTest, EqualsTheDefinition) {
  torch::manual_seed(1);
  for (const double ends : {0.0, 0.15, 1.0}) {
    for (const auto& o : {VTraceOptions{}, VTraceOptions{0.9, 0.8, 1, 1},
                          VTraceOptions{1, 1, 0.7, 0.5}, VTraceOptions{0.95, 1, 10, 10}}) {
      for (const std::int64_t T : {1, 2, 13}) {
        const auto s = rollout_with_ends(T, 5, ends);
        const auto value = at::randn({T, 5}), log_ratio = at::randn({T, 5});
        const auto want = by_hand(s, value, log_ratio, o);
        const auto what = fmt::format("T {}, ends {}, lambda {}", T, ends, o.lambda);
        expect_close(vtrace(outcomes(s), value, log_ratio, o), want, what);
        // Not contiguous, it is made of tensor operations.
        const auto turned = value.t().contiguous().t();
        ASSERT_EQ(turned.is_contiguous(), T == 1);
        expect_close(vtrace(outcomes(s), turned, log_ratio, o), want, what + ", by tensors");
      }
    }
  }
}

TEST(VTraceTest, OfTheSamePolicyItIsTheReturn) {
  torch::manual_seed(2);
  const auto s = rollout_with_ends(9, 4, 0.2);
  const auto value = at::randn({9, 4});
  for (const double lambda : {1.0, 0.9}) {
    const auto corrected =
        vtrace(outcomes(s), value, at::zeros({9, 4}), {.discount = 0.9, .lambda = lambda});
    const auto gae = generalized_advantages(s, value, 0.9, lambda);
    EXPECT_TRUE(at::allclose(corrected.target, gae.target, 1e-4, 1e-5));
    EXPECT_EQ(at::allclose(corrected.advantage, gae.advantage, 1e-4, 1e-5), lambda == 1);
  }
}

TEST(VTraceTest, SelectsEnvironments) {
  torch::manual_seed(3);
  const auto s = rollout_with_ends(6, 5, 0.2);
  const auto value = at::randn({6, 5}), log_ratio = at::randn({6, 5});
  const auto envs = at::tensor({3, 0}, at::kLong);
  const auto some = vtrace(select(outcomes(s), envs), value.index_select(1, envs),
                           log_ratio.index_select(1, envs), {});
  const auto all = vtrace(outcomes(s), value, log_ratio, {});
  EXPECT_TRUE(at::equal(some.target, all.target.index_select(1, envs)));
}

// A rollout that the agent itself made, or has been changed by `lag` since.
Samples rollout_of(ActorCritic& agent, double lag = 0) {
  torch::NoGradGuard no_grad;
  auto s = rollout_with_ends(6, 8, 0.1);
  EvaluateIn in{.observation = Observed{s.observation[0].narrow(0, 0, 6).flatten(0, 1), {}},
                .action = s.action[0].flatten()};
  const auto now = agent.evaluate(in);
  s.agent_info = {{"log_prob", now.log_prob.view({6, 8}) + lag * at::randn({6, 8})},
                  {"value", now.value.view({6, 8})}};
  return s;
}

double largest_difference(ActorCritic& a, ActorCritic& b) {
  double most = 0;
  const auto one = a.learnable(), other = b.learnable();
  for (std::size_t i = 0; i < one.size(); ++i)
    most = std::max(most, (one[i] - other[i]).abs().max().item<double>());
  return most;
}

// Without lag an update is A2C's; with lag it is another one.
TEST(ImpalaTest, WithoutLagTheUpdateIsThatOfA2c) {
  for (const double lag : {0.0, 0.5}) {
    torch::manual_seed(1);
    auto agent = make_spy(3, 4), other = make_spy(3, 4);
    const auto s = rollout_of(agent, lag);
    make_impala(agent, {.learning_rate = 1e-3, .max_grad_norm = 0.5})->update(s, {});
    make_a2c(other, {.learning_rate = 1e-3, .max_grad_norm = 0.5})->update(s, {});
    EXPECT_EQ(largest_difference(agent, other) < 1e-6, lag == 0);
  }
}

TEST(ImpalaTest, UpdateEqualsTheTextbookOne) {
  torch::manual_seed(4);
  auto agent = make_spy(3, 4), other = make_spy(3, 4);
  auto s = rollout_of(agent, 0.7);
  s.valid[5][2] = false;
  s.steps -= 1;
  const ImpalaOptions o{.learning_rate = 1e-3, .lambda = 0.9, .rho_bar = 1.2, .c_bar = 0.9};
  const auto metrics = make_impala(agent, o)->update(s, {.steps = 1, .schedule_steps = 4});

  const auto now =
      other.evaluate({.observation = Observed{s.observation[0].narrow(0, 0, 6).flatten(0, 1), {}},
                      .action = s.action[0].flatten()});
  const auto log_ratio = now.log_prob.detach().view({6, 8}) - s.agent_info.at("log_prob");
  const auto v = by_hand(s, now.value.detach().view({6, 8}).contiguous(), log_ratio,
                         {o.discount, o.lambda, o.rho_bar, o.c_bar});
  const auto kept = s.valid.flatten().nonzero().flatten();
  const auto of = [&](const at::Tensor& x) { return x.flatten().index_select(0, kept); };
  const auto loss = -(of(now.log_prob) * of(v.rho) * of(v.advantage)).mean() +
                    o.value_coef * 0.5 * (of(now.value) - of(v.target)).square().mean() -
                    o.entropy_coef * of(now.entropy).mean();
  const auto learnable = other.learnable();
  torch::optim::Adam adam(
      learnable, torch::optim::AdamOptions(0.75 * o.learning_rate).eps(o.optimizer_epsilon));
  loss.backward();
  torch::nn::utils::clip_grad_norm_(learnable, o.max_grad_norm);
  adam.step();
  EXPECT_LT(largest_difference(agent, other), 1e-6);
  for (const auto& [name, value] : metrics)
    EXPECT_TRUE(name != "rho" || std::abs(value - of(v.rho).mean().item<double>()) < 1e-5);
}

// PPO with V-trace: ratios are to the policy that acted, advantages and targets those of V-trace
// with the values of now.
TEST(AppoTest, UpdateEqualsTheTextbookOne) {
  torch::manual_seed(5);
  auto agent = make_spy(3, 4), other = make_spy(3, 4);
  auto s = rollout_of(agent, 0.4);
  s.valid[4][1] = s.valid[5][1] = false;
  s.steps -= 2;
  const PpoOptions o{.learning_rate = 1e-3,
                     .gae_lambda = 0.9,
                     .epochs = 1,
                     .minibatches = 1,
                     .clip = 0.2,
                     .vtrace = true};
  make_ppo(agent, o)->update(s, {.steps = 0, .schedule_steps = 10});

  const auto now =
      other.evaluate({.observation = Observed{s.observation[0].narrow(0, 0, 6).flatten(0, 1), {}},
                      .action = s.action[0].flatten()});
  const auto acted = s.agent_info.at("log_prob");
  const auto v = by_hand(s, now.value.detach().view({6, 8}).contiguous(),
                         now.log_prob.detach().view({6, 8}) - acted, {o.discount, o.gae_lambda});
  const auto kept = s.valid.flatten().nonzero().flatten();
  const auto of = [&](const at::Tensor& x) { return x.flatten().index_select(0, kept); };
  auto advantage = of(v.advantage);
  advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8);
  const auto ratio = (of(now.log_prob) - of(acted)).exp();
  const auto gain = at::min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage);
  const auto loss = -gain.mean() +
                    o.value_coef * 0.5 * (of(now.value) - of(v.target)).square().mean() -
                    o.entropy_coef * of(now.entropy).mean();
  const auto learnable = other.learnable();
  torch::optim::Adam adam(learnable,
                          torch::optim::AdamOptions(o.learning_rate).eps(o.optimizer_epsilon));
  loss.backward();
  torch::nn::utils::clip_grad_norm_(learnable, o.max_grad_norm);
  adam.step();
  EXPECT_LT(largest_difference(agent, other), 1e-6);
}

TEST(AppoTest, MinibatchesAreWholeSequences) {
  torch::manual_seed(6);
  auto agent = make_spy(3, 4);
  auto s = rollout_of(agent);
  const auto algo = make_ppo(agent, {.epochs = 1, .minibatches = 4, .vtrace = true});
  agent.asked.clear();
  algo->update(s, {.steps = 0, .schedule_steps = 10});
  ASSERT_EQ(agent.asked.size(), 4u);
  const auto all = s.action[0];  // [6, 8]
  for (const auto& asked : agent.asked) {
    const auto actions = asked.action[0].view({6, 2});
    for (const int column : {0, 1}) {
      bool found = false;
      for (std::int64_t b = 0; b < 8; ++b)
        found |= at::equal(all.select(1, b), actions.select(1, column));
      EXPECT_TRUE(found);
    }
  }
  const auto too_many = make_ppo(agent, {.minibatches = 9, .vtrace = true});
  EXPECT_THROW(too_many->update(s, {}), Error);
}

// A worker may be lost with all steps of its environments in a rollout.
TEST(AppoTest, EnvironmentsThatDidNothingAreLeftOut) {
  torch::manual_seed(8);
  auto agent = make_spy(3, 4);
  auto s = rollout_of(agent);
  s.valid.select(1, 2).fill_(false);
  s.steps -= s.T;
  const auto algo = make_ppo(agent, {.epochs = 1, .minibatches = 8, .vtrace = true});
  agent.asked.clear();
  algo->update(s, {.steps = 0, .schedule_steps = 10});
  EXPECT_EQ(agent.asked.size(), 7u);
  for (const auto& p : agent.learnable()) EXPECT_TRUE(p.isfinite().all().item<bool>());
}

TEST(ImpalaTest, ALossThatIsNotFiniteIsAnError) {
  torch::manual_seed(9);
  auto agent = make_spy(3, 4);
  auto s = rollout_of(agent);
  s.reward.fill_(1e30F);
  EXPECT_TRUE(message_of<DataError>([&] {
                make_impala(agent, {})->update(s, {.steps = 40, .schedule_steps = 100});
              }).starts_with("value_loss of the update after 40 steps is inf"));
}

TEST(AppoTest, RefusesWhatMakesNoSense) {
  auto agent = make_spy(3, 4);
  EXPECT_NE(message_of([&] {
              make_ppo(agent,
                       {.normalize_advantage = NormalizeAdvantage::kRollout, .vtrace = true});
            }).find("ppo.vtrace"),
            std::string::npos);
  EXPECT_THROW(make_ppo(agent, {.rho_bar = 0}), Error);
  EXPECT_THROW(make_impala(agent, {.lambda = 2}), Error);
  EXPECT_THROW(make_impala(agent, {.c_bar = -1}), Error);
}

}  // namespace vtrace_test
}  // namespace
}  // namespace shoal
