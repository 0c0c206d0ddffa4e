#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <numbers>

#include "shoal/core/error.h"
#include "tests/agents/echo_model.h"

// Every kind of action, around a model whose policy output is the observation.
namespace shoal {
namespace {

constexpr double kLow = -1, kHigh = 3;  // of continuous actions

EnvSpec with_action(Named<ActionSpec> action) {
  EnvSpec spec{.id = "Toy", .observation = ArraySpec{}, .action = std::move(action)};
  return spec;
}
EnvSpec box(std::int64_t dims = 2) { return with_action(ActionSpec::box(dims, kLow, kHigh)); }
EnvSpec bits() {
  return with_action(ActionSpec{.kind = ActionSpec::Kind::kMultiBinary, .dims = 3});
}
EnvSpec choices() {
  return with_action(ActionSpec{.kind = ActionSpec::Kind::kMultiDiscrete, .choices = {2, 3, 4}});
}
EnvSpec combined() {
  return with_action({{"gear", ActionSpec::discrete(4)},
                      {"wheel", ActionSpec::box(2, kLow, kHigh)},
                      {"lights", {.kind = ActionSpec::Kind::kMultiBinary, .dims = 2}}});
}

struct Kind {
  const char* name;
  EnvSpec (*spec)();
  ActorCriticOptions options;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

const Kind kKinds[] = {
    {"Box", [] { return box(); }, {.initial_std = 0.7}},
    {"Squashed", [] { return box(); }, {.squash = true}},
    {"NetworkStd", [] { return box(); }, {.initial_std = 0.5, .network_std = true}},
    {"Bits", bits, {}},
    {"Choices", choices, {}},
    {"Combined", combined, {}},
};

ActOut make_out(const EnvSpec& env, const Agent& agent, std::int64_t n) {
  auto tensor = [n](const ArraySpec& spec) {
    auto shape = spec.shape;
    shape.insert(shape.begin(), n);
    return at::zeros(shape, torch_dtype(spec.dtype));
  };
  ActOut out;
  for (const auto& [name, action] : env.action) out.action.add(name, tensor(action.array()));
  for (const auto& [name, spec] : agent.spec().info) out.agent_info.add(name, tensor(spec));
  return out;
}

ActOut act_on(const EnvSpec& env, Agent& agent, const at::Tensor& policy,
              const NoiseKey& noise = {}, bool greedy = false) {
  auto in = acting_on(policy, noise);
  in.greedy = greedy;
  auto out = make_out(env, agent, policy.size(0));
  agent.act(in, out);
  return out;
}

Evaluation evaluate_taken(ActorCritic& agent, const at::Tensor& policy, const ActOut& taken) {
  return agent.evaluate({.observation = Observed{policy, {}},
                         .action = taken.action,
                         .agent_info = taken.agent_info});
}

class HeadsTest : public ::testing::TestWithParam<Kind> {
 protected:
  const EnvSpec env_ = GetParam().spec();
  const std::int64_t size_ = policy_size(env_, GetParam().options);
  std::unique_ptr<ActorCritic> make(bool acting_network) const {
    return make_actor_critic(env_, std::make_shared<EchoModel>(acting_network), GetParam().options);
  }
};
INSTANTIATE_TEST_SUITE_P(All, HeadsTest, ::testing::ValuesIn(kKinds),
                         [](const auto& param) { return param.param.name; });

TEST_P(HeadsTest, EvaluateAgreesWithAct) {
  torch::manual_seed(1);
  for (const bool by_rows : {true, false}) {
    const auto agent = make(by_rows);
    const auto policy = at::randn({30, size_});
    const auto taken = act_on(env_, *agent, policy, {.seed = 1, .tick = 3});
    const auto evaluated = evaluate_taken(*agent, policy, taken);
    EXPECT_TRUE(at::allclose(evaluated.log_prob, taken.agent_info.at("log_prob"), 1e-5, 1e-5));
    EXPECT_EQ(evaluated.entropy.sizes(), (std::vector<std::int64_t>{30}));
    (evaluated.log_prob.sum() + evaluated.entropy.sum()).backward();
    for (const auto& p : agent->learnable()) EXPECT_TRUE(at::isfinite(p.grad()).all().item<bool>());
  }
}

TEST_P(HeadsTest, ARowDoesNotDependOnItsBatch) {
  torch::manual_seed(2);
  const auto agent = make(true);
  const auto policy = at::randn({16, size_});
  for (std::int64_t tick = 0; tick < 20; ++tick) {
    const auto whole = act_on(env_, *agent, policy, {.seed = 4, .tick = tick});
    const auto head = act_on(env_, *agent, policy.narrow(0, 0, 7), {.seed = 4, .tick = tick});
    const auto tail =
        act_on(env_, *agent, policy.narrow(0, 7, 9), {.seed = 4, .tick = tick, .first_env = 7});
    for (std::size_t i = 0; i < whole.action.size(); ++i)
      ASSERT_TRUE(at::equal(at::cat({head.action[i], tail.action[i]}), whole.action[i]));
    for (std::size_t i = 0; i < whole.agent_info.size(); ++i) {
      if (whole.agent_info.name(i) == "value") continue;
      ASSERT_TRUE(at::equal(at::cat({head.agent_info[i], tail.agent_info[i]}), whole.agent_info[i]))
          << whole.agent_info.name(i);
    }
  }
}

TEST_P(HeadsTest, LoopAndTensorsChooseTheSame) {
  torch::manual_seed(3);
  const auto loop = make(true), tensors = make(false);
  const auto policy = at::randn({50, size_});
  for (const bool greedy : {false, true}) {
    const auto a = act_on(env_, *loop, policy, {.seed = 9}, greedy);
    const auto b = act_on(env_, *tensors, policy, {.seed = 9}, greedy);
    for (std::size_t i = 0; i < a.action.size(); ++i)
      EXPECT_TRUE(at::allclose(a.action[i].to(at::kFloat), b.action[i].to(at::kFloat), 0, 1e-5));
    EXPECT_TRUE(at::allclose(a.agent_info.at("log_prob"), b.agent_info.at("log_prob"), 0, 1e-5));
  }
}

TEST_P(HeadsTest, ActionsKeepToTheirSpec) {
  torch::manual_seed(4);
  const auto agent = make(true);
  const auto taken = act_on(env_, *agent, 3 * at::randn({200, size_}), {.seed = 5});
  for (const auto& [name, action] : env_.action) {
    const auto& chosen = taken.action.at(name);
    if (action.kind == ActionSpec::Kind::kMultiBinary) continue;
    EXPECT_GE(chosen.min().item<double>(), action.array().low);
    EXPECT_LE(chosen.max().item<double>(), action.array().high);
    for (std::size_t part = 0; action.choices.size() > 1 && part < action.choices.size(); ++part)
      EXPECT_EQ(chosen.select(1, static_cast<std::int64_t>(part)).max().item<std::int64_t>(),
                action.choices[part] - 1);
  }
}

// The same output again and again, with the noise of 20,000 environments.
at::Tensor many(const EnvSpec& env, ActorCritic& agent, const std::vector<float>& policy) {
  const auto rows = at::tensor(policy).expand({20'000, static_cast<std::int64_t>(policy.size())});
  return act_on(env, agent, rows.contiguous(), {.seed = 7}).action[0].to(at::kDouble);
}

std::unique_ptr<ActorCritic> make_echo(const EnvSpec& env, const ActorCriticOptions& options = {}) {
  return make_actor_critic(env, std::make_shared<EchoModel>(true), options);
}

double correlation(const at::Tensor& x, const at::Tensor& y) {
  return (((x - x.mean()) * (y - y.mean())).mean() / (x.std() * y.std())).item<double>();
}

TEST(GaussianTest, HasTheMomentsItSays) {
  const auto env =
      with_action(ActionSpec::box(2, -100, 300));  // half-width 200: nothing is clipped
  const auto agent = make_echo(env, {.initial_std = 0.1});
  const auto drawn = many(env, *agent, {0.25F, -0.1F});
  EXPECT_NEAR(drawn.select(1, 0).mean().item<double>(), 100 + 0.25 * 200, 0.5);
  EXPECT_NEAR(drawn.select(1, 1).mean().item<double>(), 100 - 0.1 * 200, 0.5);
  for (const int i : {0, 1}) {
    const auto x = drawn.select(1, i);
    EXPECT_NEAR(x.std().item<double>(), 20, 0.4);
    const auto z = (x - x.mean()) / x.std();
    EXPECT_NEAR(z.pow(3).mean().item<double>(), 0, 0.08);
    EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.2);
  }
  EXPECT_NEAR(correlation(drawn.select(1, 0), drawn.select(1, 1)), 0, 0.03);
}

TEST(GaussianTest, CutsAtTheBoundsAndRecordsWhatWasDrawn) {
  const auto env = box(1);
  const auto agent = make_echo(env, {.initial_std = 0.5});
  const auto policy = at::tensor({-3.0F, 0.0F, 3.0F}).unsqueeze(1);
  const auto taken = act_on(env, *agent, policy, {.seed = 2});
  const auto& raw = taken.agent_info.at("raw");
  EXPECT_TRUE(at::allclose(taken.action[0], raw.clamp(-1, 1) * 2 + 1));
  EXPECT_EQ(taken.action[0][0].item<float>(), kLow);
  EXPECT_LT(raw[0].item<float>(), -1);
  const auto z = (raw - policy).squeeze(1) / 0.5;
  const auto expected = -0.5 * z.square() - std::log(0.5 * std::sqrt(2 * std::numbers::pi));
  EXPECT_TRUE(at::allclose(taken.agent_info.at("log_prob"), expected, 0, 1e-5));
  const auto greedy = act_on(env, *agent, policy, {}, true);
  EXPECT_TRUE(at::allclose(greedy.action[0], policy.clamp(-1, 1) * 2 + 1));
}

TEST(GaussianTest, HasTheEntropyOfItsDeviation) {
  const auto env = box();
  const auto agent = make_echo(env, {.initial_std = 0.3});
  const auto policy = at::randn({5, 2});
  const auto entropy = evaluate_taken(*agent, policy, act_on(env, *agent, policy)).entropy;
  const double one = 0.5 * std::log(2 * std::numbers::pi * std::numbers::e * 0.3 * 0.3);
  EXPECT_TRUE(at::allclose(entropy, at::full({5}, 2 * one), 0, 1e-5));
}

// The density of the squashed action, over all of its range, holds a mass of 1; and its entropy is
// the mean of -log p.
TEST(GaussianTest, SquashedDensityIsOne) {
  const auto env = box(1);
  const auto agent = make_echo(env, {.initial_std = 0.8, .squash = true});
  constexpr std::int64_t kPoints = 200'000;
  const auto action = (at::arange(kPoints, at::kDouble) + 0.5) * (2.0 / kPoints) - 1;
  const auto policy = at::full({kPoints, 1}, 0.4F);
  ActOut taken = make_out(env, *agent, kPoints);
  taken.agent_info.at("raw").copy_(at::atanh(action).unsqueeze(1));
  const auto density = evaluate_taken(*agent, policy, taken).log_prob.detach().exp();
  EXPECT_NEAR((density.to(at::kDouble) * (2.0 / kPoints)).sum().item<double>(), 1, 1e-3);

  const auto sampled = act_on(env, *agent, policy, {.seed = 3});
  const auto evaluated = evaluate_taken(*agent, policy, sampled);
  EXPECT_NEAR(evaluated.entropy.mean().item<double>(), -evaluated.log_prob.mean().item<double>(),
              0.02);
}

// Beside differences of the entropy itself, an integral over the normal distribution. The entropy
// of a wide one falls as its deviation grows.
TEST(GaussianTest, TheEntropyOfSquashedActionsHasItsGradient) {
  constexpr std::int64_t kDraws = 400'000;
  constexpr double kMean = 0.4, kStep = 1e-3;
  const auto z = at::arange(-80'000, 80'001, at::kDouble) / 10'000;
  const auto density = (-0.5 * z.square()).exp() / std::sqrt(2 * std::numbers::pi) / 10'000;
  const auto entropy = [&](double mean, double log_std) {
    const auto tanh = (mean + std::exp(log_std) * z).tanh();
    const auto slope = ((1 - tanh.square()).clamp_min(1e-300).log() * density).sum();
    return log_std + slope.item<double>();  // and a constant
  };
  for (const double deviation : {0.5, 2.0}) {
    const auto env = box(1);
    const auto agent = make_echo(env, {.initial_std = deviation, .squash = true});
    const auto policy = at::full({kDraws, 1}, static_cast<float>(kMean)).requires_grad_();
    const auto taken = act_on(env, *agent, policy.detach(), {.seed = 5});
    evaluate_taken(*agent, policy, taken).entropy.mean().backward();
    const double log_std = std::log(deviation);
    EXPECT_NEAR(agent->parameters().at("log_std").grad().item<double>(),
                (entropy(kMean, log_std + kStep) - entropy(kMean, log_std - kStep)) / (2 * kStep),
                0.02)
        << deviation;
    EXPECT_NEAR(policy.grad().sum().item<double>(),
                (entropy(kMean + kStep, log_std) - entropy(kMean - kStep, log_std)) / (2 * kStep),
                0.02)
        << deviation;
  }
}

TEST(GaussianTest, FarOutSquashedActionsStayFinite) {
  const auto env = box(1);
  const auto agent = make_echo(env, {.squash = true});
  const auto policy = at::tensor({-60.0F, 60.0F}).unsqueeze(1);
  const auto taken = act_on(env, *agent, policy);
  EXPECT_TRUE(at::isfinite(evaluate_taken(*agent, policy, taken).log_prob).all().item<bool>());
  EXPECT_NEAR(taken.action[0][1].item<float>(), kHigh, 1e-5);
}

TEST(GaussianTest, ItsDeviationIsLearnedAndSaved) {
  const auto agent = make_echo(box(), {.initial_std = 0.5});
  auto parameters = agent->parameters();
  const auto& log_std = parameters.at("log_std");
  EXPECT_TRUE(at::allclose(log_std, at::full({2}, std::log(0.5F))));
  bool learned = false;
  for (const auto& p : agent->learnable()) learned |= p.is_same(log_std);
  EXPECT_TRUE(learned);
  const auto combination = make_echo(combined());
  EXPECT_TRUE(combination->parameters().contains("wheel/log_std"));
  EXPECT_TRUE(combination->spec().info.contains("wheel/raw"));
}

TEST(GaussianTest, WithoutBoundsNumbersAreAsDrawn) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto env = with_action(ActionSpec::box(1, -inf, inf));
  const auto agent = make_echo(env);
  const auto taken = act_on(env, *agent, at::full({1, 1}, 7.0F), {}, true);
  EXPECT_EQ(taken.action[0].item<float>(), 7);
  EXPECT_THROW(make_echo(env, {.squash = true}), Error);
}

TEST(ChoicesTest, AreIndependentAndAsLikelyAsTheySay) {
  const auto env = choices();
  const auto agent = make_echo(env);
  std::vector<float> logits;
  const std::vector<std::vector<double>> probabilities = {
      {0.3, 0.7}, {0.2, 0.5, 0.3}, {0.1, 0.2, 0.3, 0.4}};
  for (const auto& part : probabilities)
    for (const double p : part) logits.push_back(static_cast<float>(std::log(p)));
  const auto drawn = many(env, *agent, logits);
  for (std::size_t part = 0; part < 3; ++part)
    for (std::size_t a = 0; a < probabilities[part].size(); ++a) {
      const auto share = drawn.select(1, static_cast<std::int64_t>(part))
                             .eq(static_cast<double>(a))
                             .to(at::kDouble)
                             .mean()
                             .item<double>();
      EXPECT_NEAR(share, probabilities[part][a], 0.015) << "part " << part << " choice " << a;
    }
  EXPECT_NEAR(correlation(drawn.select(1, 0), drawn.select(1, 1)), 0, 0.03);
  EXPECT_NEAR(correlation(drawn.select(1, 1), drawn.select(1, 2)), 0, 0.03);
}

TEST(ChoicesTest, BitsAreAsLikelyAsTheirTwoLogitsSay) {
  const auto env = bits();
  const auto agent = make_echo(env);
  const auto drawn = many(env, *agent, {0, 0, 0, 2, 3, 0});
  EXPECT_NEAR(drawn.select(1, 0).mean().item<double>(), 0.5, 0.015);
  EXPECT_NEAR(drawn.select(1, 1).mean().item<double>(), 1 / (1 + std::exp(-2)), 0.015);
  EXPECT_NEAR(drawn.select(1, 2).mean().item<double>(), 1 / (1 + std::exp(3)), 0.015);
}

TEST(CombinedTest, TheLogProbabilityIsThatOfAllParts) {
  const auto env = combined();
  const auto whole = make_echo(env);
  const auto policy = at::randn({10, policy_size(env)});
  const auto taken = act_on(env, *whole, policy, {.seed = 8});
  auto sum = at::zeros({10});
  std::int64_t from = 0;
  for (const auto& [name, action] : env.action) {
    const auto part_env = with_action(action);
    const auto size = policy_size(part_env);
    const auto part = make_echo(part_env);
    ActOut part_taken = make_out(part_env, *part, 10);
    part_taken.action[0].copy_(taken.action.at(name));
    if (name == "wheel") part_taken.agent_info.at("raw").copy_(taken.agent_info.at("wheel/raw"));
    sum += evaluate_taken(*part, policy.narrow(1, from, size).contiguous(), part_taken)
               .log_prob.detach();
    from += size;
  }
  EXPECT_EQ(from, policy.size(1));
  EXPECT_TRUE(at::allclose(taken.agent_info.at("log_prob"), sum, 0, 1e-5));
}

TEST(ActorCriticTest, RefusesAModelWithAnotherNumberOfOutputs) {
  const auto spec = discrete_env(6, 4);
  const auto observation = at::zeros({3, 6});
  for (const std::shared_ptr<ActorCriticModel>& model :
       {make_model(spec.observation, 6, ModelOptions{}, 1), make_model(spec.observation, 3, {}, 1),
        std::shared_ptr<ActorCriticModel>(std::make_shared<EchoModel>(false))}) {
    const auto agent = make_actor_critic(spec, model);
    EXPECT_THROW(act(*agent, acting_on(observation)), Error);
    EXPECT_THROW(evaluate(*agent, observation, at::zeros({3}, at::kLong)), Error);
  }
}

TEST(ActorCriticTest, RefusesWhatMakesNoSense) {
  EXPECT_THROW(make_actor_critic(with_action({}), ModelOptions{}, {}, 1), Error);
  EXPECT_THROW(make_actor_critic(box(), ModelOptions{}, {.initial_std = 0}, 1), Error);
}

}  // namespace
}  // namespace shoal
