#include "shoal/runners/export.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "shoal/agents/q_agent.h"
#include "shoal/agents/qpg_agent.h"
#include "shoal/agents/recurrent_q_agent.h"
#include "shoal/core/error.h"
#include "shoal/envs/registry.h"
#include "shoal/models/actor_critic.h"
#include "tests/runners/temporary_folder.h"
#include "tests/support/message_of.h"
#include "tests/support/toy_envs.h"

namespace shoal {
namespace {

using torch::jit::Stack;

// The agent's greedy actions, through the interface that samplers use, for n random observations.
struct Asked {
  Stack inputs;
  NamedTensors action, state;
  at::Tensor value;
};

NamedTensors of_rows(const NamedSpecs& specs, std::int64_t n) {
  NamedTensors all;
  for (const auto& [name, spec] : specs) {
    std::vector<std::int64_t> shape{n};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    all.add(name, at::zeros(shape, torch_dtype(spec.dtype)));
  }
  return all;
}

// The inputs from the previous step, for an agent with a memory.
void add_memory(ActIn& in, Asked& asked, const NamedSpecs& state, const EnvSpec& env,
                std::int64_t n) {
  in.state = of_rows(state, n);
  for (auto& [name, tensor] : in.state) asked.inputs.emplace_back(tensor.normal_());
  in.is_first = at::rand({n}).lt(0.3);
  asked.inputs.emplace_back(in.is_first);
  for (const auto& [name, action] : env.action) {
    in.previous_action.add(name, of_rows(action.array(), n)[0].random_(2));
    asked.inputs.emplace_back(in.previous_action.at(name));
  }
  in.previous_reward = at::randn({n});
  asked.inputs.emplace_back(in.previous_reward);
}

Asked ask(Agent& agent, const EnvSpec& env, std::int64_t n) {
  Asked asked;
  ActIn in;
  in.greedy = true;
  for (const auto& [name, spec] : env.observation) {
    const auto type = torch_dtype(spec.dtype);
    std::vector<std::int64_t> shape{n * spec.stack};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    const auto frames = type == at::kByte ? at::randint(0, 256, shape, at::kByte)
                                          : at::randn(shape, at::kFloat) * 3 + 1;
    Observed observed{frames, {}};
    if (spec.stack > 1) observed.index = at::arange(n * spec.stack).view({n, spec.stack});
    in.observation.add(name, observed);
    asked.inputs.emplace_back(observed.dense());
  }
  if (env.action_mask) {
    auto mask = at::ones({n, env.action[0].choices[0]}, at::kBool);
    for (std::int64_t i = 0; i < n; ++i) mask[i][i % mask.size(1)] = false;
    in.mask.add("", mask);
    asked.inputs.emplace_back(mask);
  }
  const auto& spec = agent.spec();
  if (!spec.state.empty()) add_memory(in, asked, spec.state, env, n);
  ActOut out;
  for (const auto& [name, action] : env.action) out.action.add(name, of_rows(action.array(), n)[0]);
  out.agent_info = of_rows(spec.info, n);
  out.state = of_rows(spec.state, n);
  agent.act(in, out);
  asked.action = out.action;
  asked.state = out.state;
  asked.value = out.agent_info.contains("value") ? out.agent_info.at("value") : at::Tensor();
  return asked;
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << what;
  EXPECT_FALSE(found.requires_grad()) << what;
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected.to(at::kDouble), 1e-4, 1e-4)) << what;
}

// Compares the exported policy with the agent, for one observation and for many.
void expect_equal_policies(Agent& agent, const EnvSpec& env) {
  const TemporaryFolder folder;
  export_policy(agent, env, folder / "policy.pt");
  auto module = torch::jit::load((folder / "policy.pt").string());
  for (const std::int64_t n : {1, 2, 33}) {
    const auto asked = ask(agent, env, n);
    const auto found = module.forward(asked.inputs).toTuple()->elements();
    const auto what = fmt::format("{}, {} observations", env.id, n);
    const auto actions = asked.action.size();
    ASSERT_EQ(found.size(), actions + 1 + asked.state.size());
    for (std::size_t i = 0; i < actions; ++i)
      expect_near(found[i].toTensor(), asked.action[i], what + asked.action.name(i));
    if (asked.value.defined()) {
      EXPECT_TRUE(at::allclose(found[actions].toTensor(), asked.value, 1e-3, 1e-3)) << what;
    }
    for (std::size_t i = 0; i < asked.state.size(); ++i)
      expect_near(found[actions + 1 + i].toTensor(), asked.state[i], what + " state");
    if (n > 1) continue;
    Stack one;  // without the axis of the batch
    for (const auto& input : asked.inputs) one.emplace_back(input.toTensor().squeeze(0));
    const auto alone = module.forward(one).toTuple()->elements();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::equal(alone[i].toTensor(), found[i].toTensor().squeeze(0))) << what;
  }
}

// Random weights: with initial heads, which are near zero, all actions would be nearly equal.
std::unique_ptr<ActorCritic> shaken(std::unique_ptr<ActorCritic> agent) {
  torch::NoGradGuard no_grad;
  torch::manual_seed(4);
  for (auto& parameter : agent->learnable()) parameter.add_(at::randn_like(parameter) * 0.05);
  agent->parameters_changed();
  return agent;
}

TEST(ExportTest, ActsAsTheAgentDoes) {
  for (const auto& make_env : {make_env_factory("CartPole-v1"), make_env_factory("Pendulum-v1"),
                               testing::make_zoo(), testing::make_gestures()}) {
    const auto spec = make_env({})->spec();
    const auto agent = shaken(make_actor_critic(spec, {.hidden = {16, 16}}, {}, 1));
    expect_equal_policies(*agent, spec);
  }
}

TEST(ExportTest, ActsOnImagesAsTheAgentDoes) {
  const EnvSpec spec{.id = "Camera",
                     .observation = ArraySpec{DType::kUInt8, {84, 84}, 0, 255, 4},
                     .action = ActionSpec::discrete(6)};
  const auto agent = shaken(make_actor_critic(spec, {.name = "nature-cnn"}, {}, 1));
  expect_equal_policies(*agent, spec);
}

TEST(ExportTest, ActsWithMemoryAsTheAgentDoes) {
  const auto cart_pole = make_env_factory("CartPole-v1")({})->spec();
  for (const auto memory : {MemoryKind::kLstm, MemoryKind::kGru}) {
    const ModelOptions model{.hidden = {16}, .memory = memory, .memory_size = 8};
    for (const auto& spec :
         {cart_pole, testing::make_zoo()({})->spec(), testing::make_gestures()({})->spec()})
      expect_equal_policies(*shaken(make_actor_critic(spec, model, {}, 1)), spec);
    const auto agent = make_recurrent_q_agent(cart_pole, model, {}, 1);
    expect_equal_policies(*agent, cart_pole);
  }
}

TEST(ExportTest, ANoisyQAgentActsWithItsMeans) {
  const auto spec = make_env_factory("CartPole-v1")({})->spec();
  for (const auto returns : {ReturnKind::kMean, ReturnKind::kCategorical, ReturnKind::kQuantile}) {
    const auto agent = make_q_agent(
        spec, ModelOptions{.hidden = {16}},
        {.dueling = true, .returns = returns, .atoms = 5, .noisy = true, .noise = 5}, 1);
    expect_equal_policies(*agent, spec);
  }
}

// The probabilities that the logits say, or the deviation.
TEST(ExportTest, SamplesFollowTheDistribution) {
  constexpr std::int64_t kMany = 20'000;
  const TemporaryFolder folder;
  const auto sampled = [&](const char* id) {
    const auto spec = make_env_factory(id)({})->spec();
    const auto agent = shaken(make_actor_critic(spec, {.hidden = {16}}, {.initial_std = 0.3}, 1));
    export_policy(*agent, spec, folder / "policy.pt");
    auto module = torch::jit::load((folder / "policy.pt").string());
    const auto x = at::randn({1, spec.observation[0].shape[0]}).expand({kMany, -1}) * 0.1;
    const auto draw = [&](std::int64_t seed) {
      return module.get_method("sample")({x, seed}).toTuple()->elements();
    };
    const auto first = draw(7);
    EXPECT_TRUE(at::equal(first[0].toTensor(), draw(7)[0].toTensor()));
    EXPECT_FALSE(at::equal(first[0].toTensor(), draw(8)[0].toTensor()));
    return std::vector{first[0], first[1], module.get_method("distribution")({x})};
  };
  const auto choices = sampled("CartPole-v1");
  const auto log_probs = at::log_softmax(choices[2].toTensor(), 1);
  const auto drawn = choices[0].toTensor();
  EXPECT_NEAR(drawn.to(at::kFloat).mean().item<double>(), log_probs[0][1].exp().item<double>(),
              0.015);
  expect_near(choices[1].toTensor(), log_probs.gather(1, drawn.unsqueeze(1)).squeeze(1), "log");
  const auto numbers = sampled("Pendulum-v1");
  const auto about = numbers[2].toTuple()->elements();
  const auto mean = about[0].toTensor(), std = about[1].toTensor();
  EXPECT_NEAR(std[0][0].item<double>(), 0.3, 0.05);
  const auto raw = numbers[0].toTensor() / 2;  // in half-widths
  EXPECT_NEAR(raw.mean().item<double>(), mean[0][0].item<double>(), 0.01);
  EXPECT_NEAR(raw.std().item<double>(), std[0][0].item<double>(), 0.01);
  const auto z = (raw - mean) / std;
  const auto expected = (-0.5 * z.square() - std.log() - 0.5 * std::log(2 * M_PI)).sum(1);
  EXPECT_LT((numbers[1].toTensor() - expected).abs().median().item<double>(), 1e-4);
}

TEST(ExportTest, ActsOnImagesWithNumbersAsTheAgentDoes) {
  const EnvSpec spec{.id = "Camera",
                     .observation = ArraySpec{DType::kUInt8, {36, 36}, 0, 255, 2},
                     .action = ActionSpec::box(3, -2, 1)};
  const auto agent = make_qpg_agent(spec, {.name = "nature-cnn"}, {}, 1);
  const TemporaryFolder folder;
  export_policy(*agent, spec, folder / "policy.pt");
  auto module = torch::jit::load((folder / "policy.pt").string());
  const auto x = at::randint(0, 256, {5, 2, 36, 36}, at::kByte);
  const auto want = agent->policy_outputs({.observation = Observed{x, {}}}, {});
  const auto found = module.forward({x}).toTuple()->elements();
  EXPECT_TRUE(at::allclose(found[0].toTensor(), want.action[0], 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(found[1].toTensor(), want.value, 1e-4, 1e-5));
}

TEST(ExportTest, HoldsTheNormalizationAndTheSquashing) {
  const auto spec = make_env_factory("Pendulum-v1")({})->spec();
  const auto agent = shaken(
      make_actor_critic(spec, {.hidden = {16}},
                        {.normalize_observation = true, .network_std = true, .squash = true}, 1));
  auto parameters = agent->parameters();
  parameters.at("normalizer/observation/mean").fill_(0.7);
  parameters.at("normalizer/observation/variance").fill_(4);
  agent->parameters_changed();
  expect_equal_policies(*agent, spec);
}

// A model whose trace contains the number of traced observations as a constant.
class Fixed : public ActorCriticModel {
 public:
  Fixed() { weight_ = register_parameter("weight", at::randn({4, 2})); }
  ModelOut forward(const ModelIn& in) override {
    const auto x = in.observation[0].dense();
    const auto policy = at::matmul(x.reshape({x.size(0), 4}), weight_);
    return {policy, policy.sum(1), {}};
  }

 private:
  at::Tensor weight_;
};

TEST(ExportTest, AModelThatCannotBeTracedIsRefused) {
  const auto spec = make_env_factory("CartPole-v1")({})->spec();
  const auto agent = make_actor_critic(spec, std::make_shared<Fixed>());
  const TemporaryFolder folder;
  const auto what = message_of([&] { export_policy(*agent, spec, folder / "policy.pt"); });
  EXPECT_NE(what.find("flatten with -1"), std::string::npos) << what;
  EXPECT_FALSE(std::filesystem::exists(folder / "policy.pt"));
}

TEST(ExportTest, AStackThatIsNormalizedIsRefused) {
  const EnvSpec spec{.id = "Stack",
                     .observation = ArraySpec{.shape = {2}, .stack = 3},
                     .action = ActionSpec::discrete(2)};
  const auto agent = make_actor_critic(spec, {.hidden = {8}}, {.normalize_observation = true}, 1);
  const TemporaryFolder folder;
  EXPECT_THROW(export_policy(*agent, spec, folder / "policy.pt"), Error);
}

TEST(ExportTest, TellsWhatGoesInAndOut) {
  auto config = preset("cartpole-ppo");
  const auto described = [&](const EnvSpec& spec) {
    const auto agent = make_actor_critic(spec, {.hidden = {8}}, {}, 1);
    return nlohmann::json::parse(describe_policy(*agent, config, spec));
  };
  const auto zoo = described(testing::make_zoo()({})->spec());
  EXPECT_EQ(zoo["inputs"][0]["name"], "camera");
  EXPECT_EQ(zoo["inputs"][0]["shape"].dump(), R"(["N",3,3,4])");
  EXPECT_EQ(zoo["inputs"][0]["dtype"], "uint8");
  EXPECT_EQ(zoo["inputs"][2]["name"], "mask");
  EXPECT_EQ(zoo["outputs"][0]["choices"].dump(), "[3]");
  EXPECT_EQ(zoo["distribution"][0]["shape"].dump(), R"(["N",3])");
  EXPECT_EQ(zoo["noise"], 1);
  const auto hands = described(testing::make_gestures()({})->spec());
  EXPECT_EQ(hands["outputs"][2]["name"], "push");
  EXPECT_EQ(hands["outputs"][2]["high"], 1);
  EXPECT_EQ(hands["outputs"][3]["dtype"], "bool");
  EXPECT_EQ(hands["outputs"][4]["name"], "value");
  auto scaled = testing::make_zoo()({})->spec();
  scaled.notices = {"the agent's action is 0 to 2, which stand for 5 to 7"};
  EXPECT_EQ(described(scaled)["notices"][0], scaled.notices[0]);
  config.env_id = "ALE/Pong-v5";
  const auto pong = described(testing::make_zoo()({})->spec());
  EXPECT_EQ(pong["settings"]["atari.frame_skip"], 4);
  EXPECT_EQ(pong["settings"]["env.id"], "ALE/Pong-v5");
}

}  // namespace
}  // namespace shoal
