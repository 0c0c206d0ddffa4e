#include "shoal/agents/q_agent.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>

#include "shoal/core/error.h"
#include "src/agents/head.h"

namespace shoal {
namespace {

using Model = std::shared_ptr<ActorCriticModel>;

constexpr float kNever = -std::numeric_limits<float>::infinity();

class NetworkQAgent : public QAgent {
 public:
  NetworkQAgent(std::int64_t actions, Model online, Model target, const QAgentOptions& options)
      : actions_(actions),
        dueling_(options.dueling),
        online_(std::move(online)),
        target_(std::move(target)),
        epsilon_(at::ones({options.epsilons})) {
    for (auto& parameter : target_->parameters()) parameter.set_requires_grad(false);
    update_target(1);
    parameters_changed();
  }

  const AgentSpec& spec() const override { return spec_; }

  void act(const ActIn& in, ActOut& out) override {
    torch::NoGradGuard no_grad;
    const auto advantage = run(in);  // the highest of them is that of the highest value
    auto& action = out.action[0];
    if (!in.greedy && epsilon_.size(0) > 1)
      require(
          in.noise.first_env + action.size(0) <= epsilon_.size(0),
          "an epsilon is wanted for environment {}, and there are {}; give one for each of them",
          in.noise.first_env + action.size(0) - 1, epsilon_.size(0));
    if (!acting_) return act_with_tensors(in, advantage, action);
    const Noise noise(in.noise);
    const auto* of_row = advantage.const_data_ptr<float>();
    const bool* mask = in.mask.empty() ? nullptr : in.mask[0].const_data_ptr<bool>();
    auto* to = action.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < action.size(0); ++i, of_row += actions_) {
      const bool* legal = mask ? mask + i * actions_ : nullptr;
      const bool explore = !in.greedy && noise.uniform(i, 0) < epsilon_of(in.noise.first_env + i);
      to[i] = explore ? any(legal, noise.uniform(i, 1)) : best(of_row, legal);
    }
  }

  void value(const ActIn& in, at::Tensor& value) override {
    torch::NoGradGuard no_grad;
    value.copy_(std::get<0>(values_of(*online_, in.observation).max(1)));
  }

  at::Tensor values(const Observations& observation) override {
    return values_of(*online_, observation);
  }
  at::Tensor target_values(const Observations& observation) override {
    torch::NoGradGuard no_grad;
    return values_of(*target_, observation);
  }
  void update_target(double share) override {
    torch::NoGradGuard no_grad;
    const auto from = online_->parameters(), to = target_->parameters();
    at::_foreach_lerp_(to, from, share);
    const auto buffers = online_->buffers(), targets = target_->buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) targets[i].copy_(buffers[i]);
  }
  GreedyOut greedy(const Observations& observation, const at::Tensor& mask) override {
    auto values = values_of(*online_, observation);
    if (mask.defined()) values = values.masked_fill(mask.logical_not(), kNever);
    const auto [value, action] = values.max(1);
    return {.action = action, .value = value};
  }

  std::vector<at::Tensor> learnable() override { return online_->parameters(); }
  at::Tensor epsilon() override { return epsilon_; }

  NamedTensors parameters() override {
    NamedTensors all;
    const auto add = [&all](const std::string& prefix, ActorCriticModel& model) {
      for (auto& item : model.named_parameters()) all.add(prefix + item.key(), item.value());
      for (auto& item : model.named_buffers()) all.add(prefix + item.key(), item.value());
    };
    add("", *online_);
    add("target/", *target_);
    all.add("epsilon", epsilon_);
    return all;
  }
  void parameters_changed() override {
    if (!device().is_cpu())
      acting_ = nullptr;
    else if (acting_)
      acting_->refresh();
    else
      acting_ = online_->make_acting_network(Precision::kFloat32);
  }
  void to(at::Device device) override {
    online_->to(device);
    target_->to(device);
    acting_ = nullptr;
    parameters_changed();
  }
  at::Device device() const override { return online_->parameters().front().device(); }

 private:
  at::Tensor values_of(ActorCriticModel& model, const Observations& observation) const {
    const auto out = model.forward({observation, {}, {}});
    if (!dueling_) return out.policy;
    return out.value.unsqueeze(1) + out.policy - out.policy.mean(1, /*keepdim=*/true);
  }

  // What the network says of each action, [N, actions].
  at::Tensor run(const ActIn& in) {
    if (!acting_) return online_->forward({in.observation, {}, {}}).policy.contiguous();
    const auto n = in.observation[0].size();
    if (!advantage_.defined() || advantage_.size(0) != n) {
      advantage_ = at::empty({n, actions_});
      unused_ = at::empty({n});
    }
    acting_->run(in.observation, advantage_, unused_, in.noise.first_env);
    return advantage_;
  }

  float epsilon_of(std::int64_t env) const {
    return epsilon_.const_data_ptr<float>()[epsilon_.size(0) == 1 ? 0 : env];
  }
  std::int64_t any(const bool* legal, float u) const {
    const auto count = legal ? std::count(legal, legal + actions_, true) : actions_;
    auto left = std::min(static_cast<std::int64_t>(u * static_cast<float>(count)), count - 1);
    if (!legal) return left;
    for (std::int64_t a = 0; a < actions_; ++a)
      if (legal[a] && left-- == 0) return a;
    return 0;  // nothing is legal
  }
  std::int64_t best(const float* value, const bool* legal) const {
    std::int64_t best = -1;
    for (std::int64_t a = 0; a < actions_; ++a)
      if ((!legal || legal[a]) && (best < 0 || value[a] > value[best])) best = a;
    return std::max<std::int64_t>(best, 0);  // nothing is legal
  }

  void act_with_tensors(const ActIn& in, const at::Tensor& advantage, at::Tensor& action) const {
    const auto n = action.size(0);
    const auto noise = Noise(in.noise).uniform(n, 0, 2);
    const auto legal = in.mask.empty() ? at::ones_like(advantage, at::kBool) : in.mask[0];
    const auto best = advantage.masked_fill(legal.logical_not(), kNever).argmax(1);
    if (in.greedy) {
      action.copy_(best);
      return;
    }
    const auto u = noise.to(advantage.device());
    const auto epsilon =
        epsilon_.size(0) == 1 ? epsilon_ : epsilon_.narrow(0, in.noise.first_env, n);
    const auto explore = u.select(1, 0).lt(epsilon.to(advantage.device()));
    const auto place = (u.narrow(1, 1, 1) * legal.sum(1, true)).to(at::kLong);
    const auto any = legal.cumsum(1).le(place).sum(1).clamp_max(actions_ - 1);
    action.copy_(at::where(explore, any, best));
  }

  std::int64_t actions_;
  bool dueling_;
  AgentSpec spec_;
  Model online_, target_;
  at::Tensor epsilon_;
  std::unique_ptr<ActingNetwork> acting_;  // null: on a device
  at::Tensor advantage_, unused_;          // what it puts out
};

std::int64_t actions_of(const EnvSpec& spec) {
  require(spec.action.size() == 1 && spec.action[0].kind == ActionSpec::Kind::kDiscrete,
          "{}: values are learned for one discrete action, and this environment has another kind",
          spec.id);
  return spec.action[0].choices[0];
}

}  // namespace

std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, std::shared_ptr<ActorCriticModel> model,
                                     std::shared_ptr<ActorCriticModel> target,
                                     const QAgentOptions& options) {
  require(options.epsilons >= 1, "epsilons is {}, it must be at least 1", options.epsilons);
  require(model && target && model != target, "a Q-agent needs two models, one for each network");
  require(model->state().empty(),
          "this Q-agent learns from single steps, and a model with memory needs sequences");
  return std::make_unique<NetworkQAgent>(actions_of(spec), std::move(model), std::move(target),
                                         options);
}

std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, const ModelOptions& model,
                                     const QAgentOptions& options, std::uint64_t seed) {
  auto shaped = model;
  shaped.shared_trunk = shaped.shared_trunk || options.dueling;
  const auto make = [&] { return make_model(spec.observation, actions_of(spec), shaped, seed); };
  return make_q_agent(spec, make(), make(), options);
}

}  // namespace shoal
