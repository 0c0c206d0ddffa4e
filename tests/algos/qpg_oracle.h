#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "algos/qpg/qpg_learner.h"
#include "shoal/agents/qpg_agent.h"
#include "shoal/algos/algo.h"
#include "shoal/replays/step_replay.h"
#include "src/models/panel_kernels.h"

// SAC, TD3 and DDPG once more, as plainly as torch allows: layers, autograd, torch::optim::Adam.
namespace shoal::qpg_oracle {

constexpr std::int64_t kWidth = 3, kDims = 2, kBatch = 40;

inline EnvSpec toy_env() {
  return {.id = "Toy",
          .observation = ArraySpec{.shape = {kWidth}},
          .action = ActionSpec::box(kDims, -2, 1)};
}

// Steps of two environments; some end.
inline Samples make_rollout() {
  const std::int64_t T = 60, B = 2;
  torch::manual_seed(9);
  const auto flags = at::TensorOptions().dtype(at::kBool);
  Samples s;
  s.T = T;
  s.B = B;
  s.observation = at::randn({T + 1, B, kWidth});
  s.action = at::rand({T, B, kDims}) * 3 - 2;
  s.reward = 3 * at::randn({T, B});
  s.terminated = at::rand({T, B}).lt(0.2);
  s.truncated = at::zeros({T, B}, flags);
  s.valid = at::ones({T, B}, flags);
  s.is_first = at::cat({at::ones({1, B}, flags), s.terminated});
  s.final_obs.observation = Observed{at::empty({0, kWidth}), {}};
  return s;
}

inline StepReplay make_replay(bool prioritized) {
  return StepReplay(toy_env(), 2,
                    {.size = 120, .n_step = 2, .discount = 0.9, .prioritized = prioritized});
}

// One network in parameters of its own, taken from a flat tensor.
struct Net {
  Net(const FlatMlp& mlp, const at::Tensor& flat) {
    for (std::size_t l = 0; l < mlp.layers(); ++l) {
      const auto in = mlp.widths[l], out = mlp.widths[l + 1];
      parameters.push_back(flat.narrow(0, mlp.offset(l), in * out).view({out, in}).clone());
      parameters.push_back(flat.narrow(0, mlp.bias_offset(l), out).clone());
    }
    for (auto& p : parameters) p.set_requires_grad(true);
  }
  at::Tensor operator()(at::Tensor x) const {
    for (std::size_t l = 0; l < parameters.size(); l += 2) {
      x = at::linear(x, parameters[l], parameters[l + 1]);
      if (l + 2 < parameters.size()) x = x.relu();
    }
    return x;
  }
  at::Tensor flat() const {
    std::vector<at::Tensor> all;
    for (const auto& p : parameters) all.push_back(p.detach().flatten());
    return at::cat(all);
  }
  void follow(const Net& other, double tau) {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].copy_(tau * other.parameters[i] + (1 - tau) * parameters[i]);
  }
  std::vector<at::Tensor> parameters;
};

// The noise of an update, row by row.
inline at::Tensor noise_of(const QpgUpdate& update, bool next) {
  const auto z = at::empty({qpg_noise_size(kBatch, kDims)});
  qpg_noise(update, next, kBatch, kDims, z.data_ptr<float>());
  const auto out = at::empty({kBatch, kDims});
  for (std::int64_t n = 0; n < kBatch; ++n)
    for (std::int64_t i = 0; i < kDims; ++i)
      out[n][i] = z[(n / kPanel * kDims + i) * kPanel + n % kPanel];
  return out;
}

struct Learned {
  double critic_loss = 0, policy_loss = 0, log_prob = 0;
  at::Tensor error;
};

class Oracle {
 public:
  Oracle(QpgAgent& agent, double critic_rate, double policy_rate)
      : stochastic_(agent.stochastic()) {
    const auto& n = agent.networks();
    policy.emplace_back(n.policy_mlp, n.policy);
    target_policy.emplace_back(n.policy_mlp, n.policy);
    std::vector<at::Tensor> all;
    for (std::int64_t k = 0; k < n.critics.size(0); ++k) {
      critics.emplace_back(n.critic_mlp, n.critics[k]);
      targets.emplace_back(n.critic_mlp, n.critics[k]);
      all.insert(all.end(), critics.back().parameters.begin(), critics.back().parameters.end());
    }
    critic_adam_ = std::make_unique<torch::optim::Adam>(all, critic_rate);
    policy_adam_ = std::make_unique<torch::optim::Adam>(policy[0].parameters, policy_rate);
  }

  Learned learn(const Transitions& batch, const QpgUpdate& u) {
    const auto s = batch.observation[0].dense(), next = batch.next_observation[0].dense();
    const auto action = (batch.action[0] + 0.5) / 1.5;
    at::Tensor wanted;
    {
      torch::NoGradGuard no_grad;
      const auto [a, log_prob] = next_action(next, u);
      auto value = least(targets, next, a);
      if (stochastic_) value = value - u.alpha * log_prob;
      wanted = batch.reward + batch.discount * value;
    }
    Learned out;
    at::Tensor loss, error;
    for (const auto& critic : critics) {
      const auto off = value_of(critic, s, action) - wanted;
      const auto one = (batch.weight * off * off / 2).mean();
      loss = loss.defined() ? loss + one : one;
      error = error.defined() ? error + off.abs() : off.abs();
    }
    step(*critic_adam_, loss);
    out.critic_loss = loss.item<double>();
    out.error = error.detach() / static_cast<double>(critics.size());
    if (!u.policy) return out;
    at::Tensor policy_loss;
    if (stochastic_) {
      const auto [a, log_prob] = draw(policy[0](s), noise_of(u, false));
      policy_loss = (u.alpha * log_prob - least(critics, s, a)).mean();
      out.log_prob = log_prob.mean().item<double>();
    } else {
      policy_loss = -value_of(critics[0], s, policy[0](s).tanh()).mean();
    }
    step(*policy_adam_, policy_loss);
    out.policy_loss = policy_loss.item<double>();
    for (std::size_t k = 0; k < critics.size(); ++k) targets[k].follow(critics[k], u.tau);
    target_policy[0].follow(policy[0], u.tau);
    return out;
  }

  std::vector<Net> policy, target_policy, critics, targets;

 private:
  struct Drawn {
    at::Tensor action, log_prob;
  };
  static void step(torch::optim::Adam& adam, const at::Tensor& loss) {
    adam.zero_grad();
    loss.backward({}, /*retain_graph=*/true);
    adam.step();
  }
  static at::Tensor value_of(const Net& critic, const at::Tensor& s, const at::Tensor& a) {
    return critic(at::cat({s, a}, 1)).squeeze(1);
  }
  static at::Tensor least(const std::vector<Net>& all, const at::Tensor& s, const at::Tensor& a) {
    auto value = value_of(all[0], s, a);
    for (const auto& critic : all) value = at::min(value, value_of(critic, s, a));
    return value;
  }
  // In double precision, where the textbook's formula is exact enough.
  static Drawn draw(const at::Tensor& out, const at::Tensor& z) {
    const auto mean = out.narrow(1, 0, kDims).to(at::kDouble);
    const auto log_std = out.narrow(1, kDims, kDims).clamp(-20, 2).to(at::kDouble);
    const auto a = (mean + log_std.exp() * z).tanh();
    const auto gaussian = -z.square() / 2 - log_std - 0.5 * std::log(2 * M_PI);
    return {a.to(at::kFloat), (gaussian - (1 - a.square()).log()).sum(1).to(at::kFloat)};
  }
  Drawn next_action(const at::Tensor& next, const QpgUpdate& u) const {
    if (stochastic_) return draw(policy[0](next), noise_of(u, true));
    auto a = target_policy[0](next).tanh();
    if (u.target_noise > 0)
      a = (a + (noise_of(u, true) * u.target_noise).clamp(-u.target_clip, u.target_clip))
              .clamp(-1, 1);
    return {a, {}};
  }

  bool stochastic_;
  std::unique_ptr<torch::optim::Adam> critic_adam_, policy_adam_;
};

inline double metric(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  throw std::out_of_range(name);
}

inline void expect_equal(const NamedTensors& want, const NamedTensors& got) {
  for (const auto& [name, tensor] : want) EXPECT_TRUE(at::equal(tensor, got.at(name))) << name;
}

// How far the agent's networks are from those of the oracle.
inline double furthest(const QpgAgent& agent, const Oracle& oracle) {
  const auto& n = agent.networks();
  auto off = (n.policy - oracle.policy[0].flat()).abs().max();
  for (std::size_t k = 0; k < oracle.critics.size(); ++k) {
    const auto row = static_cast<std::int64_t>(k);
    off = at::max(off, (n.critics[row] - oracle.critics[k].flat()).abs().max());
    off = at::max(off, (n.target_critics[row] - oracle.targets[k].flat()).abs().max());
  }
  if (n.target_policy.defined())
    off = at::max(off, (n.target_policy - oracle.target_policy[0].flat()).abs().max());
  return off.item<double>();
}

}  // namespace shoal::qpg_oracle
