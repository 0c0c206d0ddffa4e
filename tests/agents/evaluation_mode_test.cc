#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/agents/q_agent.h"
#include "src/models/run_model.h"
#include "tests/agents/echo_model.h"

namespace shoal::evaluation_mode_test {
namespace {

constexpr std::int64_t kChoices = 8;

// Half of the observation is dropped in training mode; `frozen` was put into evaluation mode.
class DropoutModel : public ActorCriticModel {
 public:
  DropoutModel() {
    scale_ = register_parameter("scale", at::ones({1}));
    drops_ = register_module("drops", torch::nn::Dropout(0.5));
    frozen_ = register_module("frozen", torch::nn::Dropout(0.5));
    frozen_->eval();
  }
  ModelOut forward(const ModelIn& in) override {
    const auto logits = frozen_(drops_(in.observation[0].dense() * scale_));
    return {logits, logits.sum(1), {}};
  }
  bool trains() const { return is_training() && drops_->is_training(); }
  bool is_frozen() const { return !frozen_->is_training(); }

 private:
  at::Tensor scale_;
  torch::nn::Dropout drops_{nullptr}, frozen_{nullptr};
};

at::Tensor observation() { return at::arange(1, kChoices + 1, at::kFloat).unsqueeze(0); }

TEST(EvaluationModeTest, ActingAndValuesDropNothing) {
  torch::manual_seed(1);
  const auto model = std::make_shared<DropoutModel>();
  const auto agent = make_actor_critic(discrete_env(kChoices, kChoices), model);
  auto in = acting_on(observation());
  in.greedy = true;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(act(*agent, in).action.item<std::int64_t>(), kChoices - 1);
    auto value = at::zeros({1});
    agent->value(in, value);
    EXPECT_EQ(value.item<float>(), observation().sum().item<float>());
    EXPECT_TRUE(model->trains());
    EXPECT_TRUE(model->is_frozen());
  }
}

TEST(EvaluationModeTest, LearningDrops) {
  torch::manual_seed(1);
  const auto model = std::make_shared<DropoutModel>();
  const auto agent = make_actor_critic(discrete_env(kChoices, kChoices), model);
  const auto value = [&] {
    return evaluate(*agent, observation(), at::zeros({1}, at::kLong)).value.item<float>();
  };
  bool differ = false;
  for (int i = 0; i < 20; ++i) differ = differ || value() != value();
  EXPECT_TRUE(differ);
}

TEST(EvaluationModeTest, TargetsDropNothing) {
  torch::manual_seed(1);
  const auto online = std::make_shared<DropoutModel>(), target = std::make_shared<DropoutModel>();
  const auto agent = make_q_agent(discrete_env(kChoices, kChoices), online, target);
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(at::equal(agent->target_returns(Observed{observation(), {}}).squeeze(),
                          observation().squeeze()));
  bool differ = false;
  for (int i = 0; i < 20; ++i)
    differ = differ || !at::equal(agent->returns(Observed{observation(), {}}).squeeze().detach(),
                                  observation().squeeze());
  EXPECT_TRUE(differ);
}

TEST(EvaluationModeTest, AModelInEvaluationModeStaysInIt) {
  DropoutModel model;
  model.eval();
  const at::NoGradGuard no_grad;
  run_model(model, {.observation = Observed{observation(), {}}, .state = {}, .is_first = {}});
  EXPECT_FALSE(model.is_training());
}

}  // namespace
}  // namespace shoal::evaluation_mode_test
