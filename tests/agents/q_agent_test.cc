#include "shoal/agents/q_agent.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/core/error.h"
#include "tests/agents/echo_model.h"

namespace shoal::q_agent_test {
namespace {

constexpr std::int64_t kActions = 5, kRows = 64;

std::unique_ptr<QAgent> make_echo(bool acting_network, const QAgentOptions& options = {}) {
  const auto make = [&] { return std::make_shared<EchoModel>(acting_network); };
  return make_q_agent(discrete_env(kActions, kActions), make(), make(), options);
}

at::Tensor chosen(QAgent& agent, const ActIn& in) {
  ActOut out{.action = at::full({in.observation[0].size()}, -9, at::kLong)};
  agent.act(in, out);
  return out.action[0];
}

// True: the loop over rows on the CPU. False: the tensor operations of a device.
class QAgentTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Both, QAgentTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Loop" : "Tensors"; });

TEST_P(QAgentTest, GreedilyTakesTheLegalActionOfTheHighestValue) {
  torch::manual_seed(1);
  const auto agent = make_echo(GetParam());
  const auto values = at::randn({kRows, kActions});
  auto in = acting_on(values);
  in.greedy = true;
  EXPECT_TRUE(at::equal(chosen(*agent, in), values.argmax(1)));
  const auto mask = at::rand({kRows, kActions}).lt(0.5);
  mask.select(1, 3).fill_(true);
  in.mask = mask;
  const auto legal = values.masked_fill(mask.logical_not(), -INFINITY);
  EXPECT_TRUE(at::equal(chosen(*agent, in), legal.argmax(1)));
}

// Each environment with its own probability, every legal action alike.
TEST_P(QAgentTest, ExploresWithProbabilityEpsilon) {
  const auto agent = make_echo(GetParam(), {.epsilons = 5});
  agent->epsilon().copy_(at::tensor({0.7F, 0.7F, 0.0F, 0.4F, 1.0F}));  // of environments 2 to 4
  const auto values = at::tensor({0.0F, 9.0F, 0.0F, 0.0F, 0.0F}).repeat({3, 1});
  const auto mask = at::tensor({1, 1, 0, 1, 1}).to(at::kBool).repeat({3, 1});
  constexpr int kTicks = 4000;
  auto counts = at::zeros({3, kActions}, at::kLong);
  for (std::int64_t tick = 0; tick < kTicks; ++tick) {
    auto in = acting_on(values, {.seed = 2, .tick = tick, .first_env = 2});
    in.mask = mask;
    counts.scatter_add_(1, chosen(*agent, in).unsqueeze(1), at::ones({3, 1}, at::kLong));
  }
  const auto share = counts.to(at::kDouble) / kTicks;
  const auto want = at::tensor({0.0, 1.0, 0.0, 0.0, 0.0,  //
                                0.1, 0.7, 0.0, 0.1, 0.1,  //
                                0.25, 0.25, 0.0, 0.25, 0.25})
                        .view({3, kActions});
  EXPECT_LT((share - want).abs().max().item<double>(), 0.03) << share;
  EXPECT_EQ(counts.select(1, 2).sum().item<std::int64_t>(), 0) << "an illegal action";
}

// An evaluation may have more environments than the training had.
TEST_P(QAgentTest, EnvironmentsBeyondTheLastEpsilonBeginWithTheFirst) {
  const auto agent = make_echo(GetParam(), {.epsilons = 2});
  agent->epsilon().copy_(at::tensor({0.0F, 1.0F}));
  const auto values = at::tensor({0.0F, 9.0F, 0.0F, 0.0F, 0.0F}).repeat({4, 1});
  auto explored = at::zeros({4}, at::kBool);
  for (std::int64_t tick = 0; tick < 50; ++tick)
    explored.logical_or_(chosen(*agent, acting_on(values, {.tick = tick, .first_env = 2})).ne(1));
  EXPECT_TRUE(at::equal(explored, at::tensor({0, 1, 0, 1}).to(at::kBool))) << explored;
}

TEST_P(QAgentTest, EachRowHasTheEpsilonOfItsEnvironment) {
  const auto agent = make_echo(GetParam(), {.epsilons = 2});
  agent->epsilon().copy_(at::tensor({0.0F, 1.0F}));
  const auto values = at::tensor({0.0F, 9.0F, 0.0F, 0.0F, 0.0F}).repeat({2, 1});
  bool explored = false;
  for (std::int64_t tick = 0; tick < 50; ++tick) {
    const std::vector<NoiseKey::Row> rows{{.env = 1, .tick = tick}, {.env = 0, .tick = 7}};
    const auto action = chosen(*agent, acting_on(values, {.first_env = -1, .rows = rows}));
    explored = explored || action[0].item<std::int64_t>() != 1;
    EXPECT_EQ(action[1].item<std::int64_t>(), 1);
  }
  EXPECT_TRUE(explored);
}

TEST(QAgentBothTest, LoopAndTensorsChooseTheSame) {
  torch::manual_seed(3);
  const auto loop = make_echo(true), tensors = make_echo(false);
  for (const auto* agent : {loop.get(), tensors.get()})
    const_cast<QAgent*>(agent)->epsilon().fill_(0.5);
  for (std::int64_t tick = 0; tick < 50; ++tick) {
    auto in = acting_on(at::randn({kRows, kActions}), {.seed = 4, .tick = tick, .first_env = 7});
    in.mask = at::rand({kRows, kActions}).lt(0.5);
    in.mask[0].select(1, tick % kActions).fill_(true);
    ASSERT_TRUE(at::equal(chosen(*loop, in), chosen(*tensors, in))) << tick;
  }
}

TEST(QAgentBothTest, TheTargetNetworkStaysUntilItIsMoved) {
  const auto agent = make_q_agent(discrete_env(3, 2), ModelOptions{}, {}, 1);
  const Observations seen = Observed{at::randn({4, 3}), {}};
  const auto before = agent->values(seen).detach();
  EXPECT_TRUE(at::equal(agent->target_values(seen), before));
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : agent->learnable()) parameter.add_(1);
  }
  const auto after = agent->values(seen).detach();
  EXPECT_TRUE(at::equal(agent->target_values(seen), before));
  const auto parameters = agent->parameters();
  const auto half = [&] { return parameters.at("target/policy_head.bias").clone(); };
  const auto old = half();
  agent->update_target(0.25);
  EXPECT_TRUE(at::allclose(half(), old + 0.25));
  agent->update_target(1);
  EXPECT_TRUE(at::equal(agent->target_values(seen), after));
  EXPECT_FALSE(agent->target_values(seen).requires_grad());
}

TEST(QAgentBothTest, DuelingAddsTheAdvantageOverTheMean) {
  const auto agent =
      make_q_agent(discrete_env(3, 4), ModelOptions{.hidden = {8}}, {.dueling = true}, 1);
  const auto x = at::randn({5, 3});
  std::map<std::string, at::Tensor> p;
  for (const auto& [name, parameter] : agent->parameters()) p[name] = parameter.detach();
  const auto trunk = at::linear(x, p.at("trunk0.weight"), p.at("trunk0.bias")).tanh();
  const auto out = at::linear(trunk, p.at("policy_head.weight"), p.at("policy_head.bias"));
  const auto got = agent->values(Observed{x, {}}).detach();
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto mean = out[i].narrow(0, 0, 4).sum().item<float>() / 4;
    for (std::int64_t a = 0; a < 4; ++a)
      EXPECT_NEAR(got[i][a].item<float>(), out[i][4].item<float>() + out[i][a].item<float>() - mean,
                  1e-5);
  }
}

// The network's output is the observation itself.
std::unique_ptr<QAgent> make_wide_echo(bool acting_network, const QAgentOptions& options) {
  const auto outputs = q_output_size(discrete_env(1, kActions), options);
  const auto make = [&] { return std::make_shared<EchoModel>(acting_network); };
  return make_q_agent(discrete_env(outputs, kActions), make(), make(), options);
}

TEST(QAgentBothTest, LoopAndTensorsAgreeOnEveryKindOfReturns) {
  torch::manual_seed(5);
  for (const bool dueling : {false, true}) {
    for (const auto kind : {ReturnKind::kMean, ReturnKind::kCategorical, ReturnKind::kQuantile}) {
      const QAgentOptions options{
          .dueling = dueling, .returns = kind, .atoms = 7, .v_min = -2, .v_max = 3};
      const auto loop = make_wide_echo(true, options), tensors = make_wide_echo(false, options);
      auto in =
          acting_on(3 * at::randn({kRows, q_output_size(discrete_env(1, kActions), options)}));
      in.greedy = true;
      EXPECT_TRUE(at::equal(chosen(*loop, in), chosen(*tensors, in)));
      EXPECT_TRUE(at::equal(chosen(*loop, in), loop->values(in.observation).detach().argmax(1)));
    }
  }
}

TEST(QAgentBothTest, MeansOfFixedReturnsAndOfQuantiles) {
  const auto fixed = make_wide_echo(
      true, {.returns = ReturnKind::kCategorical, .atoms = 3, .v_min = -1, .v_max = 5});
  EXPECT_TRUE(at::equal(fixed->support(), at::tensor({-1.0F, 2.0F, 5.0F})));
  const auto logits = at::tensor({0.1F, 0.3F, 0.6F}).log().view({1, 1, 3}) + 4;
  EXPECT_NEAR(fixed->means(logits).item<float>(), -0.1 + 0.6 + 3.0, 1e-5);
  const auto quantiles = make_wide_echo(true, {.returns = ReturnKind::kQuantile, .atoms = 3});
  EXPECT_NEAR(quantiles->means(at::tensor({1.0F, 2.0F, 6.0F}).view({1, 1, 3})).item<float>(), 3,
              1e-6);
}

TEST(QAgentBothTest, NoiseIsDrawnAnewAndGreedyActionsHaveNone) {
  const QAgentOptions options{.noisy = true, .noise = 0.5};
  const auto make = [&] {
    return make_q_agent(discrete_env(3, 4), ModelOptions{.hidden = {16}}, options, 6);
  };
  const auto agent = make(), twin = make();
  const auto x = at::randn({5, 3});
  const Observations seen = Observed{x, {}};
  const auto first = agent->values(seen).detach();
  EXPECT_TRUE(at::equal(first, twin->values(seen).detach())) << "one seed, one noise";
  const auto first_target = agent->target_values(seen);
  agent->draw_noise();
  const auto second = agent->values(seen).detach(), second_target = agent->target_values(seen);
  EXPECT_FALSE(at::allclose(first, second));
  EXPECT_FALSE(at::allclose(first_target, second_target));
  // The noise is part of the parameters.
  const auto from = agent->parameters();
  for (auto& [name, tensor] : twin->parameters()) tensor.detach().copy_(from.at(name));
  twin->parameters_changed();
  EXPECT_TRUE(at::equal(second, twin->values(seen).detach()));
  EXPECT_TRUE(at::equal(second_target, twin->target_values(seen)));
  agent->draw_noise();
  twin->draw_noise();
  EXPECT_TRUE(at::equal(agent->values(seen).detach(), twin->values(seen).detach()));

  const auto before = agent->target_values(seen);
  for (auto& parameter : agent->learnable()) parameter.detach().add_(1);
  EXPECT_TRUE(at::equal(before, agent->target_values(seen)));
  agent->update_target(1);
  EXPECT_FALSE(at::allclose(before, agent->target_values(seen)));

  // Without noise: a network whose weights are the means.
  std::map<std::string, at::Tensor> p;
  for (const auto& [name, parameter] : agent->parameters()) p[name] = parameter.detach();
  const auto trunk = at::linear(x, p.at("trunk0.weight"), p.at("trunk0.bias")).tanh();
  const auto mean = at::linear(trunk, p.at("policy_head.weight"), p.at("policy_head.bias"));
  auto in = acting_on(x);
  in.greedy = true;
  EXPECT_TRUE(at::equal(chosen(*agent, in), mean.argmax(1)));
  const auto out = agent->policy_outputs({.observation = seen}, {});
  EXPECT_TRUE(at::equal(out.action[0], mean.argmax(1)));
  EXPECT_TRUE(at::allclose(out.value.detach(), std::get<0>(mean.max(1))));
}

// After any number of changes since the last act(), and any other calls in between.
TEST(QAgentBothTest, ActsByTheNetworkAsItIs) {
  torch::manual_seed(8);
  const auto agent = make_q_agent(discrete_env(3, 4), ModelOptions{.hidden = {16}},
                                  {.dueling = true, .noisy = true}, 8);
  agent->epsilon().zero_();
  const auto x = at::randn({kRows, 3});
  const Observations seen = Observed{x, {}};
  const auto noisily = acting_on(x);
  auto greedily = acting_on(x);
  greedily.greedy = true;
  for (int i = 0; i < 3; ++i) {
    {
      torch::NoGradGuard no_grad;
      for (auto& parameter : agent->learnable()) parameter.add_(at::randn_like(parameter), 0.1);
    }
    agent->parameters_changed();
    agent->draw_noise();
    agent->parameters_changed();
    const auto noisy = agent->values(seen).detach().argmax(1);
    EXPECT_TRUE(at::equal(chosen(*agent, noisily), noisy)) << i;
    const auto means = agent->policy_outputs({.observation = seen}, {}).action[0];
    EXPECT_FALSE(at::equal(means, noisy)) << i;
    EXPECT_TRUE(at::equal(chosen(*agent, noisily), noisy)) << i;
    EXPECT_TRUE(at::equal(chosen(*agent, greedily), means)) << i;
    EXPECT_TRUE(at::equal(agent->values(seen).detach().argmax(1), noisy)) << i;
    EXPECT_TRUE(at::equal(chosen(*agent, greedily), means)) << i;
  }
}

// By differences: moving a learnable number a little moves the loss by its gradient.
TEST(QAgentBothTest, GradientsReachMeansAndDeviations) {
  const auto agent = make_q_agent(discrete_env(3, 4), ModelOptions{.hidden = {6}},
                                  {.dueling = true, .noisy = true}, 7);
  const Observations seen = Observed{at::randn({8, 3}), {}};
  const auto weight = at::randn({8, 4});
  const auto loss = [&] { return (agent->values(seen) * weight).sum(); };
  const auto gradients = agent->gradients(loss());
  const auto learnable = agent->learnable();
  ASSERT_EQ(gradients.size(), learnable.size());
  constexpr double kStep = 1e-2;
  for (std::size_t i = 0; i < learnable.size(); ++i) {
    torch::NoGradGuard no_grad;
    const auto direction = at::randn_like(learnable[i]);
    const auto at_step = [&](double step) {
      learnable[i].detach().add_(direction, step);
      agent->parameters_changed();
      const auto result = loss().item<double>();
      learnable[i].detach().sub_(direction, step);
      return result;
    };
    const double slope = (at_step(kStep) - at_step(-kStep)) / (2 * kStep);
    EXPECT_NEAR((gradients[i] * direction).sum().item<double>(), slope,
                0.02 * std::abs(slope) + 0.02)
        << i;
  }
}

TEST(QAgentBothTest, NeedsOneDiscreteAction) {
  EnvSpec env = discrete_env(3, 2);
  env.action = ActionSpec::box(1, -1, 1);
  EXPECT_THROW(make_q_agent(env, ModelOptions{}, {}, 1), Error);
}

}  // namespace
}  // namespace shoal::q_agent_test
