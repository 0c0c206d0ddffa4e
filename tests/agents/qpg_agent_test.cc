#include "shoal/agents/qpg_agent.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/picture_control.h"
#include "tests/support/plain_model.h"

namespace shoal::qpg_agent_test {
namespace {

constexpr std::int64_t kWidth = 5, kDims = 3;
constexpr double kLow = -2, kHigh = 4;

EnvSpec box_env() {
  return {.id = "Toy",
          .observation = ArraySpec{.shape = {kWidth}},
          .action = ActionSpec::box(kDims, kLow, kHigh)};
}

std::unique_ptr<QpgAgent> make(bool stochastic) {
  return make_qpg_agent(box_env(), {.stochastic = stochastic, .hidden = {24, 40}}, 7);
}

at::Tensor chosen(QpgAgent& agent, const at::Tensor& x, NoiseKey key, bool greedy = false) {
  ActIn in{.observation = Observed{x, {}}, .noise = key, .greedy = greedy};
  ActOut out{.action = at::full({x.size(0), kDims}, -99.0F)};
  agent.act(in, out);
  return out.action[0];
}

void set_exploration(QpgAgent& agent, float random, float deviation) {
  agent.exploration().copy_(at::tensor({random, deviation}));
}

class QpgAgentTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Both, QpgAgentTest, ::testing::Bool(), [](const auto& param) {
  return param.param ? "Stochastic" : "Deterministic";
});

TEST_P(QpgAgentTest, GreedilyTakesTheMean) {
  const auto agent = make(GetParam());
  torch::manual_seed(1);
  const auto x = at::randn({70, kWidth});
  const auto& n = agent->networks();
  const auto want = n.policy_mlp.forward(n.policy, x).narrow(1, 0, kDims).tanh() * 3 + 1;
  EXPECT_TRUE(at::allclose(chosen(*agent, x, {}, true), want, 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(agent->policy_outputs({.observation = Observed{x, {}}}, {}).action[0],
                           want, 1e-5, 1e-5));
  auto value = at::empty({70});
  agent->value({.observation = Observed{x, {}}}, value);
  const auto both = at::cat({x, (want - 1) / 3}, 1);
  const auto least = at::minimum(n.critic_mlp.forward(n.critics[0], both),
                                 n.critic_mlp.forward(n.critics[1], both));
  EXPECT_TRUE(at::allclose(value, least.squeeze(1), 1e-4, 1e-5));
}

// Each row stands for itself, bit for bit, in whatever batch.
TEST_P(QpgAgentTest, RowsDoNotDependOnTheirBatch) {
  const auto agent = make(GetParam());
  set_exploration(*agent, 0.3F, 0.7F);
  torch::manual_seed(2);
  const auto x = at::randn({100, kWidth});
  const auto all = chosen(*agent, x, {.seed = 3, .tick = 8, .first_env = 4});
  for (const auto& [from, n] :
       {std::pair<std::int64_t, std::int64_t>{0, 1}, {5, 7}, {17, 16}, {30, 33}, {99, 1}}) {
    const auto part =
        chosen(*agent, x.narrow(0, from, n), {.seed = 3, .tick = 8, .first_env = 4 + from});
    EXPECT_TRUE(at::equal(part, all.narrow(0, from, n))) << from;
  }
  EXPECT_FALSE(at::equal(chosen(*agent, x, {.seed = 3, .tick = 9, .first_env = 4}), all));
}

TEST_P(QpgAgentTest, AtRandomIsUniformWithinTheBounds) {
  const auto agent = make(GetParam());
  const auto a = chosen(*agent, at::zeros({20'000, kWidth}), {.seed = 5});
  EXPECT_GE(a.min().item<double>(), kLow);
  EXPECT_LE(a.max().item<double>(), kHigh);
  EXPECT_LT((a.mean(0) - 1).abs().max().item<double>(), 0.05);
  EXPECT_LT((a.var(0) - 3).abs().max().item<double>(), 0.1);  // of a width of 6: 36 / 12
  set_exploration(*agent, 0.25F, 0);
  const auto mostly = chosen(*agent, at::zeros({20'000, kWidth}), {.seed = 5});
  const auto share = mostly.select(1, 0).ne(mostly.select(1, 0).median()).to(at::kFloat).mean();
  EXPECT_NEAR(share.item<double>(), 0.25, 0.02);
}

TEST_P(QpgAgentTest, NoiseHasTheDeviationAskedFor) {
  const auto agent = make(GetParam());
  set_exploration(*agent, 0, 0.2F);
  const auto x = at::zeros({20'000, kWidth});
  const auto a = (chosen(*agent, x, {.seed = 5}) - 1) / 3;
  const auto& n = agent->networks();
  const auto out = n.policy_mlp.forward(n.policy, x.narrow(0, 0, 1))[0];
  const auto mean = out.narrow(0, 0, kDims);
  const auto noise =
      GetParam() ? (a.atanh() - mean) / out.narrow(0, kDims, kDims).exp() : a - mean.tanh();
  EXPECT_LT(noise.mean(0).abs().max().item<double>(), 0.006);
  EXPECT_LT((noise.std(0) - 0.2).abs().max().item<double>(), 0.006);
  const auto together = (noise.select(1, 0) * noise.select(1, 1)).mean();
  EXPECT_LT(together.abs().item<double>(), 0.002);
  set_exploration(*agent, 0, 50);
  const auto wild = chosen(*agent, x, {.seed = 5});
  EXPECT_GE(wild.min().item<double>(), kLow);
  EXPECT_LE(wild.max().item<double>(), kHigh);
}

TEST_P(QpgAgentTest, ACheckpointHoldsEverything) {
  const auto agent = make(GetParam()),
             other = make_qpg_agent(box_env(), {.stochastic = GetParam(), .hidden = {24, 40}}, 8);
  set_exploration(*agent, 0.1F, 0.4F);
  const auto from = agent->parameters(), to = other->parameters();
  EXPECT_EQ(to.contains("target/policy"), !GetParam());
  EXPECT_TRUE(at::equal(from.at("critics"), from.at("target/critics")));
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : from) to.at(name).copy_(tensor);
  const auto x = at::randn({9, kWidth});
  EXPECT_TRUE(at::equal(chosen(*agent, x, {.seed = 1}), chosen(*other, x, {.seed = 1})));
}

TEST(QpgAgentAnyTest, TwinsBeginApart) {
  const auto agent = make(true);
  const auto& critics = agent->networks().critics;
  EXPECT_FALSE(at::equal(critics[0], critics[1]));
}

TEST(QpgAgentAnyTest, AdjacentSeedsHaveNoCriticInCommon) {
  const auto of = [](std::uint64_t seed) {
    const auto agent = make_qpg_agent(box_env(), {.hidden = {24, 40}}, seed);
    return agent->networks().critics.clone();
  };
  const auto first = of(7), second = of(8);
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 2; ++k) EXPECT_FALSE(at::equal(first[i], second[k])) << i << k;
}

TEST(QpgAgentAnyTest, NeedsOneBoxWithBounds) {
  auto env = box_env();
  EXPECT_THROW(make_qpg_agent(env, {.critics = 0}, 1), Error);
  EXPECT_THROW(make_qpg_agent(env, {.hidden = {0}}, 1), Error);
  env.action = ActionSpec::discrete(3);
  EXPECT_THROW(make_qpg_agent(env, {}, 1), Error);
  env.action = ActionSpec::box(2, -INFINITY, 1);
  EXPECT_THROW(make_qpg_agent(env, {}, 1), Error);
  env.action = {{"a", ActionSpec::box(2, -1, 1)}, {"b", ActionSpec::box(2, -1, 1)}};
  EXPECT_THROW(make_qpg_agent(env, {}, 1), Error);
}

EnvSpec picture_env() { return testing::BrightColumn(36, kDims).spec(); }

at::Tensor pictures(std::int64_t n) {
  torch::manual_seed(1);
  return at::randint(0, 256, {n, 2, 36, 36}, at::kByte);
}

// Acts on pictures as their rows say, in one batch or several.
TEST_P(QpgAgentTest, ActsOnPictures) {
  const auto fast =
      make_qpg_agent(picture_env(), {.name = "nature-cnn"}, {.stochastic = GetParam()}, 7);
  register_model("plain-" + std::to_string(GetParam()),
                 [](const NamedSpecs& o, std::int64_t outputs, const ModelOptions&) {
                   return std::make_shared<testing::PlainModel>(
                       make_model(o, outputs, {.name = "nature-cnn"}, 7));
                 });
  const auto plain = make_qpg_agent(picture_env(), {.name = "plain-" + std::to_string(GetParam())},
                                    {.stochastic = GetParam()}, 7);
  const auto x = pictures(20);
  for (auto* agent : {fast.get(), plain.get()}) set_exploration(*agent, 0.3F, 0.5F);
  EXPECT_TRUE(at::allclose(chosen(*fast, x, {}, true),
                           fast->policy_outputs({.observation = Observed{x, {}}}, {}).action[0],
                           1e-4, 1e-4));
  const auto all = chosen(*fast, x, {.seed = 3, .tick = 8, .first_env = 4});
  EXPECT_TRUE(
      at::allclose(all, chosen(*plain, x, {.seed = 3, .tick = 8, .first_env = 4}), 1e-4, 1e-4))
      << "beside tensor operations";
  EXPECT_TRUE(at::equal(all.narrow(0, 5, 7),
                        chosen(*fast, x.narrow(0, 5, 7), {.seed = 3, .tick = 8, .first_env = 9})));
}

TEST_P(QpgAgentTest, ACheckpointHoldsEverythingOfModels) {
  const auto make = [](std::uint64_t seed) {
    return make_qpg_agent(picture_env(), {.name = "nature-cnn", .hidden = {24}},
                          {.stochastic = GetParam()}, seed);
  };
  const auto agent = make(7), other = make(8);
  const auto x = pictures(9);
  EXPECT_FALSE(at::equal(chosen(*agent, x, {}, true), chosen(*other, x, {}, true)));
  const auto from = agent->parameters(), to = other->parameters();
  EXPECT_TRUE(to.contains("policy/model.conv1.weight"));
  EXPECT_TRUE(to.contains("target/critics/heads"));
  EXPECT_TRUE(at::equal(from.at("critics/encoder.hidden.weight"),
                        from.at("target/critics/encoder.hidden.weight")));
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : from) to.at(name).copy_(tensor);
  other->parameters_changed();
  EXPECT_TRUE(at::equal(chosen(*agent, x, {}, true), chosen(*other, x, {}, true)));
  EXPECT_TRUE(at::equal(agent->networks().critics, other->networks().critics));
}

class WithState : public testing::PlainModel {
 public:
  using PlainModel::PlainModel;
  NamedSpecs state() const override { return {{"seen", ArraySpec{}}}; }
};

TEST(QpgAgentAnyTest, RefusesRecurrentModels) {
  register_model("with-state", [](const NamedSpecs& o, std::int64_t outputs, const ModelOptions&) {
    return std::make_shared<WithState>(make_model(o, outputs, {}, 1));
  });
  const auto text = message_of([] { make_qpg_agent(box_env(), {.name = "with-state"}, {}, 1); });
  EXPECT_TRUE(text.starts_with("model 'with-state': found a state")) << text;
  EXPECT_THROW(make_qpg_agent(box_env(), {.memory = MemoryKind::kGru}, {}, 1), Error);
}

}  // namespace
}  // namespace shoal::qpg_agent_test
