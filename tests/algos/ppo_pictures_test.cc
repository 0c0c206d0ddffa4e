#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/ppo.h"
#include "shoal/models/actor_critic.h"
#include "tests/algos/rollouts.h"

// PPO with the Nature CNN against the textbook form of the same update: dense images, plain
// operations, `backward`, torch::optim::Adam.
namespace shoal::ppo_pictures_test {
namespace {

constexpr std::int64_t kSteps = 4, kEnvs = 4, kSize = 36, kStack = 4, kChoices = 3;

// Images of which every row shows the frames of four rows before, all in one tensor.
Samples rollout() {
  const auto images = at::randint(0, 256, {kSteps + kStack, kEnvs, kSize, kSize}, at::kByte);
  auto s = make_rollout({.observation = images.narrow(0, kStack - 1, kSteps + 1),
                         .action = at::randint(0, kChoices, {kSteps, kEnvs}, at::kLong),
                         .log_prob = at::randn({kSteps, kEnvs}) * 0.1 - 1.1,
                         .value = at::randn({kSteps, kEnvs}),
                         .reward = at::randn({kSteps, kEnvs})});
  const auto newest = at::arange(kEnvs * (kSteps + 1)).view({-1, 1});
  s.observed = Observed{images.flatten(0, 1), newest + at::arange(kStack) * kEnvs};
  return s;
}

using Weights = std::map<std::string, at::Tensor>;

at::Tensor features(const Weights& w, const at::Tensor& images) {
  auto layer = [&](const at::Tensor& x, const std::string& name, int stride) {
    return at::conv2d(x, w.at(name + ".weight"), w.at(name + ".bias"), stride).relu();
  };
  const auto x = layer(layer(layer(images / 255.0, "conv1", 4), "conv2", 2), "conv3", 1);
  return at::linear(x.flatten(1), w.at("hidden.weight"), w.at("hidden.bias")).relu();
}

TEST(PpoPicturesTest, UpdateEqualsTheTextbookOne) {
  torch::manual_seed(3);
  const ArraySpec image{.dtype = DType::kUInt8, .shape = {kSize, kSize}, .stack = kStack};
  const EnvSpec spec{
      .id = "Pictures", .observation = image, .action = ActionSpec::discrete(kChoices)};
  const auto model = make_model(image, kChoices, {.name = "nature-cnn"}, 1);
  Weights w;
  std::vector<at::Tensor> list;
  for (const auto& item : model->named_parameters())
    list.push_back(w[item.key()] = item.value().detach().clone().requires_grad_());
  const PpoOptions options{.learning_rate = 1e-3, .epochs = 3, .minibatches = 1, .clip = 0.1};

  const auto s = rollout();
  auto dense = [&] {
    std::vector<at::Tensor> channels;
    for (int k = 0; k < kStack; ++k)
      channels.push_back(s.observed[0].data.index_select(
          0, s.observed[0].index.select(1, k).narrow(0, 0, kSteps * kEnvs)));
    return at::stack(channels, 1).to(at::kFloat);
  }();
  const auto& value = s.agent_info.at("value");
  auto advantage = at::zeros({kSteps, kEnvs});
  auto next = at::zeros({kEnvs}), running = at::zeros({kEnvs});
  for (auto t = kSteps - 1; t >= 0; --t) {
    running = s.reward[t] + options.discount * next - value[t] +
              options.discount * options.gae_lambda * running;
    advantage[t] = running;
    next = value[t];
  }
  const auto target = (advantage + value).flatten();
  advantage = ((advantage - advantage.mean()) / (advantage.std() + 1e-8)).flatten();
  torch::optim::Adam adam(
      list, torch::optim::AdamOptions(options.learning_rate).eps(options.optimizer_epsilon));
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    const auto x = features(w, dense);
    const auto log_probs =
        at::log_softmax(at::linear(x, w.at("policy_head.weight"), w.at("policy_head.bias")), 1);
    const auto v = at::linear(x, w.at("value_head.weight"), w.at("value_head.bias")).squeeze(1);
    const auto log_prob = log_probs.gather(1, s.action[0].flatten().unsqueeze(1)).squeeze(1);
    const auto ratio = (log_prob - s.agent_info.at("log_prob").flatten()).exp();
    const auto gain =
        at::min(ratio * advantage, ratio.clamp(1 - options.clip, 1 + options.clip) * advantage);
    const auto entropy = -(log_probs.exp() * log_probs).sum(1);
    adam.zero_grad();
    (-gain.mean() + options.value_coef * 0.5 * (v - target).square().mean() -
     options.entropy_coef * entropy.mean())
        .backward();
    torch::nn::utils::clip_grad_norm_(list, options.max_grad_norm);
    adam.step();
  }

  const auto agent = make_actor_critic(spec, model);
  make_ppo(*agent, options)->update(s, {.steps = 0, .schedule_steps = 1000});
  for (const auto& item : model->named_parameters()) {
    // Adam's first steps have the size of the learning rate whatever the gradient's: where that is
    // all but zero, rounding decides their sign.
    const auto off = (item.value() - w.at(item.key())).abs();
    EXPECT_LT(off.mean().item<double>(), 2e-5) << item.key();
  }
}

}  // namespace
}  // namespace shoal::ppo_pictures_test
