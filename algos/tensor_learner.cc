#include <torch/torch.h>

#include <cmath>
#include <numbers>

#include "algos/control_learner.h"
#include "src/models/panel_kernels.h"

namespace shoal {
namespace {

const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

class TensorLearner : public ControlLearner {
 public:
  TensorLearner(ControlAgent& agent, Ranks& ranks) : ControlLearner(agent, ranks), agent_(agent) {}

  ControlResult learn(const Transitions& batch, const ControlUpdate& update) override {
    const auto& n = agent_.networks();
    const auto device = agent_.device();
    const auto seen = agent_.input(batch.observation).to(device);
    const auto next = agent_.input(batch.next_observation).to(device);
    const auto action = (batch.action[0].to(device) - agent_.middle()) / agent_.half_width();
    const auto wanted = target(batch, next, update);
    const auto weight = batch.weight.to(device);

    const auto critics = n.critics.detach().requires_grad_();
    const auto value = values(critics, seen, action);  // [critics, N]
    const auto error = value - wanted;
    const auto loss = (0.5 * weight * error.square()).mean(1).sum();
    const auto policy = n.policy.detach().requires_grad_();
    step(n.critics, torch::autograd::grad({loss}, {critics})[0], critic_moments, update.critic_rate,
         update.epsilon);
    ControlResult result{.critic_loss = loss.item<double>(),
                         .value = value.mean().item<double>(),
                         .error = error.detach().abs().mean(0).to(at::kCPU)};
    if (update.policy) {
      const auto [chosen, log_prob] = act(policy, seen, update);
      const auto all = values(n.critics, seen, chosen);
      const auto worth = update.least_value ? all.amin(0) : all[0];
      auto policy_loss = -worth.mean();
      if (agent_.stochastic()) policy_loss = policy_loss + update.alpha * log_prob.mean();
      step(n.policy, torch::autograd::grad({policy_loss}, {policy})[0], policy_moments,
           update.policy_rate, update.epsilon);
      result.policy_loss = policy_loss.item<double>();
      if (agent_.stochastic()) result.log_prob = log_prob.mean().item<double>();
    }
    n.target_critics.lerp_(n.critics, update.tau);
    if (n.target_policy.defined()) n.target_policy.lerp_(n.policy, update.tau);
    return result;
  }

 private:
  struct Chosen {
    at::Tensor action, log_prob;
  };

  at::Tensor values(const at::Tensor& critics, const at::Tensor& observation,
                    const at::Tensor& action) const {
    const auto x = at::cat({observation, action}, 1);
    std::vector<at::Tensor> all;
    for (const auto& critic : critics.unbind(0))
      all.push_back(agent_.networks().critic_mlp.forward(critic, x).squeeze(1));
    return at::stack(all);
  }

  at::Tensor noise(std::int64_t n, const ControlUpdate& update, bool next) const {
    const auto dims = agent_.dims(), size = control_noise_size(n, dims);
    const auto z = at::empty({size});
    control_noise(update, next, n, dims, z.data_ptr<float>());
    return z.narrow(0, 0, panels_of(n) * dims * kPanel)
        .view({panels_of(n), dims, kPanel})
        .transpose(1, 2)
        .reshape({-1, dims})
        .narrow(0, 0, n)
        .to(agent_.device());
  }

  // What a stochastic policy does, given the noise.
  Chosen draw(const at::Tensor& out, const at::Tensor& z) const {
    const auto dims = agent_.dims();
    const auto log_std = out.narrow(1, dims, dims).clamp(kLeastLogStd, kMostLogStd);
    const auto u = out.narrow(1, 0, dims) + log_std.exp() * z;
    const auto log_slope = 2 * (std::numbers::ln2 - u - at::softplus(-2 * u));
    return {u.tanh(), (-0.5 * z.square() - log_std - kHalfLogTwoPi - log_slope).sum(1)};
  }

  Chosen act(const at::Tensor& policy, const at::Tensor& x, const ControlUpdate& update) const {
    const auto out = agent_.networks().policy_mlp.forward(policy, x);
    if (agent_.stochastic()) return draw(out, noise(x.size(0), update, false));
    return {out.tanh(), {}};
  }

  at::Tensor target(const Transitions& batch, const at::Tensor& next,
                    const ControlUpdate& update) const {
    torch::NoGradGuard no_grad;
    const auto& n = agent_.networks();
    const auto device = agent_.device();
    at::Tensor action, value;
    if (agent_.stochastic()) {
      const auto chosen =
          draw(n.policy_mlp.forward(n.policy, next), noise(next.size(0), update, true));
      value =
          values(n.target_critics, next, chosen.action).amin(0) - update.alpha * chosen.log_prob;
    } else {
      action = n.policy_mlp.forward(n.target_policy, next).tanh();
      if (update.target_noise > 0) {
        const auto z = noise(next.size(0), update, true) * update.target_noise;
        action = (action + z.clamp(-update.target_clip, update.target_clip)).clamp(-1, 1);
      }
      value = values(n.target_critics, next, action).amin(0);
    }
    return batch.reward.to(device) + batch.discount.to(device) * value;
  }

  void step(const at::Tensor& parameters, const at::Tensor& gradient, ControlMoments& m,
            double rate, double epsilon) const {
    constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
    torch::NoGradGuard no_grad;
    average(gradient);
    const auto t = static_cast<double>(++*m.steps.data_ptr<std::int64_t>());
    m.mean.lerp_(gradient, 1 - kBeta1);
    m.square.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
    const auto root = (m.square.sqrt() / std::sqrt(1 - std::pow(kBeta2, t))).add_(epsilon);
    parameters.addcdiv_(m.mean, root, -rate / (1 - std::pow(kBeta1, t)));
  }

  ControlAgent& agent_;
};

}  // namespace

std::unique_ptr<ControlLearner> make_tensor_learner(ControlAgent& agent, Ranks& ranks) {
  return std::make_unique<TensorLearner>(agent, ranks);
}

}  // namespace shoal
