#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/agents/actor_critic.h"
#include "shoal/models/actor_critic.h"
#include "tests/agents/echo_model.h"

namespace shoal {
namespace {

constexpr std::int64_t kWidth = 6, kChoices = 5;

void randomize(ActorCritic& agent) {
  torch::NoGradGuard no_grad;
  for (auto& p : agent.learnable()) p.normal_(0, 0.4);
  agent.parameters_changed();
}

// An agent with an MLP whose probabilities are far from equal.
struct MlpAgent {
  explicit MlpAgent(bool shared_trunk = false)
      : model(
            make_model(ArraySpec{.shape = {kWidth}}, kChoices, {.shared_trunk = shared_trunk}, 3)),
        agent(make_actor_critic(discrete_env(kWidth, kChoices), model)) {
    torch::manual_seed(1);
    randomize(*agent);
  }
  at::Tensor log_probs(const at::Tensor& x) const {
    torch::NoGradGuard no_grad;
    return at::log_softmax(
        model->forward({.observation = Observed{x, {}}, .state = {}, .is_first = {}}).policy, 1);
  }
  std::shared_ptr<ActorCriticModel> model;
  std::unique_ptr<ActorCritic> agent;
};

at::Tensor taken(const at::Tensor& log_probs, const at::Tensor& action) {
  return log_probs.gather(1, action.unsqueeze(1)).squeeze(1);
}

TEST(CategoricalTest, RecordsTheLogProbabilityAndTheValueOfWhatItDid) {
  for (const bool shared : {false, true}) {
    MlpAgent made(shared);
    for (const std::int64_t n : {1, 7, 64}) {
      const auto x = at::randn({n, kWidth});
      for (const bool greedy : {false, true}) {
        auto in = acting_on(x);
        in.greedy = greedy;
        const auto acted = act(*made.agent, in);
        EXPECT_GE(acted.action.min().item<std::int64_t>(), 0);
        ASSERT_LT(acted.action.max().item<std::int64_t>(), kChoices);
        EXPECT_TRUE(at::allclose(acted.log_prob, taken(made.log_probs(x), acted.action), 0, 1e-5));
        const auto out =
            made.model->forward({.observation = Observed{x, {}}, .state = {}, .is_first = {}});
        EXPECT_TRUE(at::allclose(acted.value, out.value, 0, 1e-5));
      }
    }
  }
}

TEST(CategoricalTest, SaysWhatItRecords) {
  const auto agent = make_echo_agent(3, true);
  const auto& spec = agent->spec();
  ASSERT_EQ(spec.info.size(), 2u);
  EXPECT_EQ(spec.info.at("log_prob").dtype, DType::kFloat32);
  EXPECT_TRUE(spec.info.at("value").shape.empty());
  EXPECT_TRUE(spec.state.empty());
}

TEST(CategoricalTest, EvaluateAgreesWithAct) {
  MlpAgent made;
  const auto x = at::randn({40, kWidth});
  const auto acted = act(*made.agent, acting_on(x));
  const auto evaluated = evaluate(*made.agent, x, acted.action);
  EXPECT_TRUE(at::allclose(evaluated.log_prob, acted.log_prob, 0, 1e-5));
  EXPECT_TRUE(at::allclose(evaluated.value, acted.value, 0, 1e-5));
  const auto log_probs = made.log_probs(x);
  EXPECT_TRUE(at::allclose(evaluated.entropy, -(log_probs.exp() * log_probs).sum(1), 0, 1e-5));
  for (const auto& t : {evaluated.log_prob, evaluated.entropy, evaluated.value}) {
    EXPECT_EQ(t.sizes(), (std::vector<std::int64_t>{40}));
    EXPECT_TRUE(t.requires_grad());
  }
}

TEST(CategoricalTest, ValueIsThatOfAct) {
  MlpAgent made;
  const auto x = at::randn({9, kWidth});
  auto value = at::full({9}, 1e9F);
  made.agent->value(acting_on(x), value);
  EXPECT_TRUE(at::equal(value, act(*made.agent, acting_on(x)).value));

  const auto echo = make_echo_agent(kWidth, false);
  echo->value(acting_on(x), value);
  EXPECT_TRUE(at::allclose(value, x.sum(1)));
}

// Actions do not depend on how environments are divided into batches.
TEST(CategoricalTest, ARowDoesNotDependOnItsBatch) {
  MlpAgent made;
  const auto x = at::randn({16, kWidth});
  for (std::int64_t tick = 0; tick < 50; ++tick) {
    const auto whole = act(*made.agent, acting_on(x, {.seed = 4, .tick = tick}));
    const auto head = act(*made.agent, acting_on(x.narrow(0, 0, 7), {.seed = 4, .tick = tick}));
    const auto tail =
        act(*made.agent, acting_on(x.narrow(0, 7, 9), {.seed = 4, .tick = tick, .first_env = 7}));
    ASSERT_TRUE(at::equal(at::cat({head.action, tail.action}), whole.action)) << "tick " << tick;
    ASSERT_TRUE(at::equal(at::cat({head.log_prob, tail.log_prob}), whole.log_prob))
        << "tick " << tick;
    ASSERT_TRUE(at::equal(at::cat({head.value, tail.value}), whole.value)) << "tick " << tick;
  }
}

// Rows of tensors that are filled in place, as a sampler's are.
TEST(CategoricalTest, WritesIntoViews) {
  MlpAgent made;
  const auto x = at::randn({4, kWidth});
  auto actions = at::zeros({3, 4}, at::kLong);
  auto log_probs = at::zeros({3, 4}), values = at::zeros({3, 4});
  ActOut out{.action = actions[1],
             .agent_info = {{"log_prob", log_probs[1]}, {"value", values[1]}}};
  made.agent->act(acting_on(x), out);
  const auto expected = act(*made.agent, acting_on(x));
  EXPECT_TRUE(at::equal(actions[1], expected.action));
  EXPECT_TRUE(at::equal(log_probs[1], expected.log_prob));
  EXPECT_TRUE(at::equal(values[1], expected.value));
  EXPECT_EQ(log_probs[0].abs().sum().item<float>() + log_probs[2].abs().sum().item<float>(), 0);
}

TEST(CategoricalTest, ActsWithNewParametersOnceTold) {
  MlpAgent made;
  const auto x = at::randn({32, kWidth});
  const auto before = act(*made.agent, acting_on(x));
  randomize(*made.agent);
  const auto after = act(*made.agent, acting_on(x));
  EXPECT_FALSE(at::allclose(before.value, after.value));
  EXPECT_TRUE(at::allclose(after.log_prob, taken(made.log_probs(x), after.action), 0, 1e-5));
  made.agent->to(at::kCPU);
  EXPECT_TRUE(at::equal(act(*made.agent, acting_on(x)).value, after.value));
}

TEST(CategoricalTest, ParametersAreTheAgentsOwn) {
  MlpAgent made, other;
  randomize(*other.agent);
  const auto x = at::randn({8, kWidth});
  auto from = other.agent->parameters();
  auto to = made.agent->parameters();
  ASSERT_EQ(to.size(), made.agent->learnable().size());
  {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < to.size(); ++i) to.at(from.name(i)).copy_(from[i]);
  }
  made.agent->parameters_changed();
  EXPECT_TRUE(
      at::equal(act(*made.agent, acting_on(x)).value, act(*other.agent, acting_on(x)).value));
}

TEST(CategoricalTest, Bf16RecordsWhatBf16Did) {
  torch::manual_seed(6);
  const EnvSpec spec{.id = "Images",
                     .observation = ArraySpec{.dtype = DType::kUInt8, .shape = {36, 36}},
                     .action = ActionSpec::discrete(4)};
  const auto model = make_model(spec.observation, 4, {.name = "nature-cnn"}, 1);
  {
    torch::NoGradGuard no_grad;
    model->named_parameters()["policy_head.weight"].mul_(300);
  }
  const auto agent = make_actor_critic(spec, model, {.act_precision = Precision::kBf16});
  const auto x = at::randint(0, 256, {24, 36, 36}, at::kByte);
  const auto acted = act(*agent, acting_on(x));

  auto logits = at::empty({24, 4}), value = at::empty({24});
  model->make_acting_network(Precision::kBf16)
      ->run(Observed{x, {}}, logits, value, /*first_env=*/0);
  EXPECT_TRUE(
      at::allclose(acted.log_prob, taken(at::log_softmax(logits, 1), acted.action), 0, 1e-5));
  const auto exact = evaluate(*agent, x, acted.action);
  EXPECT_TRUE(at::allclose(exact.log_prob, acted.log_prob, 0, 0.2)) << "too far from float32";
  EXPECT_FALSE(at::allclose(exact.log_prob, acted.log_prob, 0, 1e-6)) << "this is not bf16";
}

}  // namespace
}  // namespace shoal
