#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "algos/adam.h"
#include "algos/qpg/qpg_learner.h"
#include "src/compute/captured_graph.h"
#include "src/models/panel_kernels.h"

namespace shoal {
namespace {

const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

// Everything an update reads, side by side in memory, so that it goes to the device in one copy.
class UpdateInput {
 public:
  UpdateInput() = default;
  // For as many steps as there are observations.
  UpdateInput(const Observations& observation, std::int64_t dims, at::Device device) {
    const auto n = observation[0].size();
    std::vector<Place> places{{{n, dims}}, {{n}},       {{n}},       {{n}},
                              {{n, dims}}, {{n, dims}}, {{kNumbers}}};
    for (int of = 0; of < 2; ++of)
      for (const auto& [name, o] : observation)
        places.push_back({o.dense().sizes().vec(), o.data.scalar_type()});
    std::int64_t size = 0;
    for (auto& place : places) size = place.set_from(size);
    host_ = at::empty({size}, at::TensorOptions().dtype(at::kByte).pinned_memory(!device.is_cpu()));
    there_ = is_host(device) ? host_ : at::empty({size}, host_.options().device(device));
    for (const auto& place : places) {
      on_host_.push_back(place.of(host_));
      on_device_.push_back(place.of(there_));
    }
    auto next = on_device_.begin() + kSeen;
    for (auto* to : {&seen_, &next_})
      for (const auto& [name, o] : observation) to->add(name, Observed{*next++, {}});
  }

  // The fields of the observation follow those of kSeen, and then those of the next observation.
  enum Field { kAction, kReward, kDiscount, kWeight, kNoise, kNextNoise, kScalars, kSeen };
  // The elements of kScalars: Adam's step sizes and root factors, alpha, and the targets' tau.
  enum Number { kCriticStep, kCriticRoot, kPolicyStep, kPolicyRoot, kAlpha, kTau, kNumbers };

  std::int64_t rows() const { return on_host_.empty() ? 0 : on_host_[kReward].size(0); }
  const at::Tensor& host(Field f) const { return on_host_[f]; }
  void set(Number which, double value) {
    on_host_[kScalars].data_ptr<float>()[which] = static_cast<float>(value);
  }
  void set_observations(const Observations& seen, const Observations& next) {
    auto to = on_host_.begin() + kSeen;
    for (const auto* from : {&seen, &next})
      for (const auto& [name, o] : *from) (to++)->copy_(o.dense());
  }
  void upload() {
    if (!there_.is_same(host_)) there_.copy_(host_, /*non_blocking=*/true);
  }
  const at::Tensor& operator[](Field f) const { return on_device_[f]; }
  at::Tensor number(Number which) const { return on_device_[kScalars][which]; }
  const Observations& seen() const { return seen_; }
  const Observations& next() const { return next_; }

 private:
  struct Place {
    std::vector<std::int64_t> shape;
    at::ScalarType type = at::kFloat;
    std::int64_t from = 0;

    std::int64_t bytes() const {
      return c10::multiply_integers(shape) * static_cast<std::int64_t>(c10::elementSize(type));
    }
    // Returns where the next one may begin.
    std::int64_t set_from(std::int64_t at) {
      constexpr std::int64_t kAlignment = 64;
      from = at;
      return (at + bytes() + kAlignment - 1) / kAlignment * kAlignment;
    }
    at::Tensor of(const at::Tensor& all) const {
      return all.narrow(0, from, bytes()).view(type).view(shape);
    }
  };

  at::Tensor host_, there_;  // bytes
  std::vector<at::Tensor> on_host_, on_device_;
  Observations seen_, next_;  // on the device
};

class TensorLearner : public QpgLearner {
 public:
  TensorLearner(QpgAgent& agent, ProcessGroup& ranks) : QpgLearner(agent, ranks), agent_(agent) {}

  QpgResult learn(const Transitions& batch, const QpgUpdate& update) override {
    take(batch, update);
    const auto device = agent_.device();
    const auto work = [this, update] { out_.copy_(learn(update)); };
    // Other ranks' gradients go through the host.
    if (ranks_.count() == 1)
      captured_[update.policy].run(device, work);
    else
      work();
    const auto out = out_.to(at::kCPU);  // waits for it
    const auto* number = out.const_data_ptr<float>();
    return {.critic_loss = number[0],
            .policy_loss = number[1],
            .value = number[2],
            .log_prob = number[3],
            .error = out.narrow(0, kResults, in_.rows()).clone()};
  }

 private:
  using In = UpdateInput;
  static constexpr std::int64_t kResults = 4;

  // Everything that differs from update to update.
  void take(const Transitions& batch, const QpgUpdate& update) {
    const auto n = batch.reward.size(0);
    const auto moved = parameters_.have_changed(agent_.parameters());
    const auto seen = agent_.input(batch.observation), next = agent_.input(batch.next_observation);
    if (in_.rows() != n || moved) {
      in_ = In(seen, agent_.dims(), agent_.device());
      out_ = at::empty({kResults + n}, at::TensorOptions().device(agent_.device()));
      for (auto& r : captured_) r.forget();
    }
    in_.set_observations(seen, next);
    in_.host(In::kAction).copy_((batch.action[0] - agent_.middle()) / agent_.half_width());
    in_.host(In::kReward).copy_(batch.reward);
    in_.host(In::kDiscount).copy_(batch.discount);
    in_.host(In::kWeight).copy_(batch.weight);
    if (agent_.stochastic() && update.policy) in_.host(In::kNoise).copy_(noise(n, update, false));
    if (agent_.stochastic() || update.target_noise > 0)
      in_.host(In::kNextNoise).copy_(noise(n, update, true));
    count(critic_moments, update.critic_rate, {In::kCriticStep, In::kCriticRoot});
    if (update.policy)
      count(policy_moments, update.policy_rate, {In::kPolicyStep, In::kPolicyRoot});
    in_.set(In::kAlpha, update.alpha);
    in_.set(In::kTau, update.tau);
    in_.upload();
  }

  // A step of Adam more: what corrects its moments for their start at 0.
  void count(QpgMoments& m, double rate, std::pair<In::Number, In::Number> step_and_root) {
    const auto t = static_cast<double>(++*m.steps.data_ptr<std::int64_t>());
    const auto step = make_adam_step(t, rate, kAdamEpsilon);
    in_.set(step_and_root.first, step.rate);
    in_.set(step_and_root.second, step.root);
  }

  // Losses of critics and policy, the mean value and log p, and the errors.
  at::Tensor learn(const QpgUpdate& update) {
    const auto& n = agent_.networks();
    const auto& seen = in_.seen();
    const auto wanted = target(update);
    const auto value = agent_.values(seen, in_[In::kAction]);  // [critics, N]
    const auto error = value - wanted;
    const auto loss = (0.5 * in_[In::kWeight] * error.square()).mean(1).sum();
    step(n.critics, agent_.critics_gradient(loss), critic_moments,
         {In::kCriticStep, In::kCriticRoot});
    auto policy_loss = at::zeros_like(loss), mean_log_prob = policy_loss;
    if (update.policy) {
      const auto [chosen, log_prob] = act(seen);
      const auto all = agent_.values(seen, chosen);
      const auto worth = update.least_value ? all.amin(0) : all[0];
      policy_loss = -worth.mean();
      if (agent_.stochastic()) {
        mean_log_prob = log_prob.mean();
        policy_loss = policy_loss + in_.number(In::kAlpha) * mean_log_prob;
      }
      step(n.policy, agent_.policy_gradient(policy_loss), policy_moments,
           {In::kPolicyStep, In::kPolicyRoot});
    }
    torch::NoGradGuard no_grad;
    agent_.move_targets(in_.number(In::kTau));
    return at::cat(
        {at::stack({loss, policy_loss, value.mean(), mean_log_prob}), error.abs().mean(0)});
  }

  struct Chosen {
    at::Tensor action, log_prob;
  };

  at::Tensor noise(std::int64_t n, const QpgUpdate& update, bool next) const {
    const auto dims = agent_.dims(), size = qpg_noise_size(n, dims);
    const auto z = at::empty({size});
    qpg_noise(update, next, n, dims, z.data_ptr<float>());
    return z.narrow(0, 0, panels_of(n) * dims * kPanel)
        .view({panels_of(n), dims, kPanel})
        .transpose(1, 2)
        .reshape({-1, dims})
        .narrow(0, 0, n);
  }

  // The actions of a stochastic policy, given the noise.
  Chosen draw(const at::Tensor& out, const at::Tensor& z) const {
    const auto dims = agent_.dims();
    const auto log_std = out.narrow(1, dims, dims).clamp(kLeastLogStd, kMostLogStd);
    const auto u = out.narrow(1, 0, dims) + log_std.exp() * z;
    const auto log_slope = 2 * (std::numbers::ln2 - u - at::softplus(-2 * u));
    return {u.tanh(), (-0.5 * z.square() - log_std - kHalfLogTwoPi - log_slope).sum(1)};
  }

  Chosen act(const Observations& seen) const {
    const auto out = agent_.policy(seen);
    if (agent_.stochastic()) return draw(out, in_[In::kNoise]);
    return {out.tanh(), {}};
  }

  at::Tensor target(const QpgUpdate& update) const {
    torch::NoGradGuard no_grad;
    const auto& next = in_.next();
    const auto values = [&](const at::Tensor& action) {
      return agent_.values(next, action, /*target=*/true).amin(0);
    };
    at::Tensor value;
    if (agent_.stochastic()) {
      const auto chosen = draw(agent_.policy(next), in_[In::kNextNoise]);
      value = values(chosen.action) - in_.number(In::kAlpha) * chosen.log_prob;
    } else {
      auto action = agent_.policy(next, /*target=*/true).tanh();
      if (update.target_noise > 0) {
        const auto z = in_[In::kNextNoise] * update.target_noise;
        action = (action + z.clamp(-update.target_clip, update.target_clip)).clamp(-1, 1);
      }
      value = values(action);
    }
    return in_[In::kReward] + in_[In::kDiscount] * value;
  }

  void step(const at::Tensor& parameters, const at::Tensor& gradient, QpgMoments& m,
            std::pair<In::Number, In::Number> step_and_root) const {
    torch::NoGradGuard no_grad;
    average(gradient);
    const auto rate = in_.number(step_and_root.first), root = in_.number(step_and_root.second);
    if (is_host(parameters.device()))
      return apply_adam({.rate = rate.item<float>(),
                         .root = root.item<float>(),
                         .epsilon = static_cast<float>(kAdamEpsilon),
                         .tau = 0},
                        {parameters, m.mean, m.square, gradient});
    m.mean.lerp_(gradient, 1 - kAdamBeta1);
    m.square.mul_(kAdamBeta2).addcmul_(gradient, gradient, 1 - kAdamBeta2);
    parameters.sub_(m.mean / (m.square.sqrt() * root).add_(kAdamEpsilon) * rate);
  }

  QpgAgent& agent_;
  In in_;
  at::Tensor out_;                         // [kResults + N]
  TensorAddresses parameters_;             // of the agent's parameters, which the graphs read
  std::array<CapturedGraph, 2> captured_;  // of updates without and with the policy's
};

}  // namespace

std::unique_ptr<QpgLearner> make_tensor_learner(QpgAgent& agent, ProcessGroup& ranks) {
  return std::make_unique<TensorLearner>(agent, ranks);
}

}  // namespace shoal
