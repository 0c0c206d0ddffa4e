#include "shoal/runners/export.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "shoal/agents/qpg_agent.h"
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
  NamedTensors action;
  at::Tensor value;
};

Asked ask(ActorCritic& agent, const EnvSpec& env, std::int64_t n) {
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
  ActOut out;
  for (const auto& [name, action] : env.action) {
    const auto spec = action.array();
    std::vector<std::int64_t> shape{n};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    out.action.add(name, at::empty(shape, torch_dtype(spec.dtype)));
  }
  for (const auto& [name, spec] : agent.spec().info) {
    std::vector<std::int64_t> shape{n};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    out.agent_info.add(name, at::empty(shape, at::kFloat));
  }
  agent.act(in, out);
  asked.action = out.action;
  asked.value = out.agent_info.at("value");
  return asked;
}

// Compares the exported policy with the agent, for one observation and for many.
void expect_equal_policies(ActorCritic& agent, const EnvSpec& env) {
  const TemporaryFolder folder;
  export_policy(agent, env, folder / "policy.pt");
  auto module = torch::jit::load((folder / "policy.pt").string());
  for (const std::int64_t n : {1, 2, 33}) {
    const auto asked = ask(agent, env, n);
    const auto found = module.forward(asked.inputs).toTuple()->elements();
    ASSERT_EQ(found.size(), asked.action.size() + 1);
    for (std::size_t i = 0; i < asked.action.size(); ++i) {
      const auto& action = found[i].toTensor();
      EXPECT_EQ(action.scalar_type(), asked.action[i].scalar_type());
      EXPECT_FALSE(action.requires_grad());
      EXPECT_TRUE(at::allclose(action.to(at::kDouble), asked.action[i].to(at::kDouble), 1e-4, 1e-4))
          << env.id << " " << asked.action.name(i) << ", " << n << " observations";
    }
    EXPECT_TRUE(at::allclose(found.back().toTensor(), asked.value, 1e-3, 1e-3));
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

TEST(ExportTest, ActsOnImagesWithNumbersAsTheAgentDoes) {
  const EnvSpec spec{.id = "Camera",
                     .observation = ArraySpec{DType::kUInt8, {36, 36}, 0, 255, 2},
                     .action = ActionSpec::box(3, -2, 1)};
  const auto agent = make_qpg_agent(spec, {.name = "nature-cnn"}, {}, 1);
  const TemporaryFolder folder;
  export_policy(*agent, spec, folder / "policy.pt");
  auto module = torch::jit::load((folder / "policy.pt").string());
  const auto x = at::randint(0, 256, {5, 2, 36, 36}, at::kByte);
  const auto want = agent->greedy(Observed{x, {}}, {});
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
  const auto zoo = nlohmann::json::parse(describe_policy(config, testing::make_zoo()({})->spec()));
  EXPECT_EQ(zoo["inputs"][0]["name"], "camera");
  EXPECT_EQ(zoo["inputs"][0]["shape"].dump(), R"(["N",3,3,4])");
  EXPECT_EQ(zoo["inputs"][0]["dtype"], "uint8");
  EXPECT_EQ(zoo["inputs"][2]["name"], "mask");
  EXPECT_EQ(zoo["outputs"][0]["choices"].dump(), "[3]");
  const auto hands =
      nlohmann::json::parse(describe_policy(config, testing::make_gestures()({})->spec()));
  EXPECT_EQ(hands["outputs"][2]["name"], "push");
  EXPECT_EQ(hands["outputs"][2]["high"], 1);
  EXPECT_EQ(hands["outputs"][3]["dtype"], "bool");
  EXPECT_EQ(hands["outputs"][4]["name"], "value");
  config.env_id = "ALE/Pong-v5";
  const auto pong = nlohmann::json::parse(describe_policy(config, testing::make_zoo()({})->spec()));
  EXPECT_EQ(pong["settings"]["atari.frame_skip"], 4);
  EXPECT_EQ(pong["settings"]["env.id"], "ALE/Pong-v5");
}

}  // namespace
}  // namespace shoal
