#include "shoal/agents/qpg_agent.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "shoal/core/error.h"
#include "src/agents/device_copy.h"
#include "src/agents/pg/head.h"
#include "src/compute/accelerator.h"
#include "src/models/flat_input.h"
#include "src/models/panel_mlp.h"

namespace shoal {
namespace {

QpgAgent::Networks make_networks(std::int64_t observed, std::int64_t dims, const QpgAgentOptions& o,
                                 std::uint64_t seed) {
  const auto widths = [&o](std::int64_t in, std::int64_t out) {
    std::vector<std::int64_t> all{in};
    all.insert(all.end(), o.hidden.begin(), o.hidden.end());
    all.push_back(out);
    return FlatMlp{all};
  };
  QpgAgent::Networks n;
  n.policy_mlp = widths(observed, o.stochastic ? 2 * dims : dims);
  n.critic_mlp = widths(observed + dims, 1);
  n.policy = at::empty({n.policy_mlp.size()}, at::kFloat);
  n.policy_mlp.initialise(n.policy, seed);
  n.critics = at::empty({o.critics, n.critic_mlp.size()}, at::kFloat);
  for (int k = 0; k < o.critics; ++k)
    n.critic_mlp.initialise(n.critics[k], seed + 1 + static_cast<std::uint64_t>(k));
  n.target_critics = n.critics.clone();
  if (!o.stochastic) n.target_policy = n.policy.clone();
  return n;
}

class MlpQpgAgent : public QpgAgent {
 public:
  MlpQpgAgent(const EnvSpec& spec, const QpgAgentOptions& options, std::uint64_t seed)
      : input_(spec.observation),
        dims_(spec.action[0].dims),
        stochastic_(options.stochastic),
        middle_((spec.action[0].low + spec.action[0].high) / 2),
        half_width_((spec.action[0].high - spec.action[0].low) / 2),
        networks_(make_networks(input_.width(), dims_, options, seed)) {}

  const AgentSpec& spec() const override { return spec_; }
  const Networks& networks() const override { return networks_; }
  bool stochastic() const override { return stochastic_; }
  std::int64_t dims() const override { return dims_; }
  double middle() const override { return middle_; }
  double half_width() const override { return half_width_; }
  at::Tensor exploration() override { return exploration_; }
  at::Tensor input(const Observations& observation) const override { return input_(observation); }

  void act(const ActIn& in, ActOut& out) override {
    torch::NoGradGuard no_grad;
    auto& action = out.action[0];
    if (!is_host(device())) return act_with_tensors(in, action);
    const auto x = input_(in.observation).contiguous();
    const auto n = x.size(0);
    run(x);
    const Noise noise(in.noise);
    auto* to = action.data_ptr<float>();
    for (std::int64_t row = 0; row < n; ++row, to += dims_) {
      const float* column = acting_->output(row / kPanel) + row % kPanel;
      if (!in.greedy && noise.uniform(row, 0) < random())
        act_at_random(noise, row, to);
      else
        act_by_policy(in.greedy ? nullptr : &noise, row, column, to);
    }
  }

  // Of the most likely action, the smaller one of the critics' values.
  void value(const ActIn& in, at::Tensor& value) override {
    torch::NoGradGuard no_grad;
    value.copy_(greedy(in.observation, {}).value);
  }

  GreedyOut greedy(const Observations& observation, const at::Tensor&) override {
    const auto x = input_(observation);
    const auto action =
        networks_.policy_mlp.forward(networks_.policy, x).narrow(1, 0, dims_).tanh();
    const auto both = at::cat({x, action}, 1);
    at::Tensor least;
    for (const auto& critic : networks_.critics.unbind(0)) {
      const auto value = networks_.critic_mlp.forward(critic, both).squeeze(1);
      least = least.defined() ? at::minimum(least, value) : value;
    }
    return {.action = action * half_width_ + middle_, .value = least};
  }

  NamedTensors parameters() override {
    NamedTensors all = {{"policy", networks_.policy},
                        {"critics", networks_.critics},
                        {"target/critics", networks_.target_critics}};
    if (!stochastic_) all.add("target/policy", networks_.target_policy);
    all.add("exploration", exploration_);
    return all;
  }

  NamedTensors acting_parameters() override {
    return {{"policy", networks_.policy}, {"exploration", exploration_}};
  }

  void before_rollout(bool) override { there_.of(exploration_, device()); }

  void to(at::Device device) override {
    for (auto* tensor : {&networks_.policy, &networks_.target_policy, &networks_.critics,
                         &networks_.target_critics})
      if (tensor->defined()) *tensor = tensor->to(device);
  }
  at::Device device() const override { return networks_.policy.device(); }

 private:
  float random() const { return exploration_.const_data_ptr<float>()[0]; }
  float deviation() const { return exploration_.const_data_ptr<float>()[1]; }
  float in_unit(double action) const { return static_cast<float>(action * half_width_ + middle_); }

  // What the policy puts out for each row, into acting_.
  void run(const at::Tensor& x) {
    const auto n = x.size(0), width = x.size(1), panels = panels_of(n);
    if (!acting_ || panels != panels_) {
      acting_.emplace(networks_.policy_mlp, panels, /*learns=*/false);
      turned_ = PanelBuffer(width, panels);
      panels_ = panels;
    }
    const auto* from = x.const_data_ptr<float>();
    auto* to = turned_.data;
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t f = 0; f < width; ++f)
        to[(row / kPanel * width + f) * kPanel + row % kPanel] = *from++;
    const auto columns = n - (panels - 1) * kPanel;
    at::parallel_for(0, panels, 1, [&](std::int64_t first, std::int64_t last) {
      acting_->forward(networks_.policy.const_data_ptr<float>(), {turned_.data, width * kPanel},
                       {first, last, last == panels ? columns : kPanel});
    });
  }

  // Of the noise of a row, number 0 decides whether it acts at random, the next ones say how; the
  // rest are normal ones, two for each.
  void act_at_random(const Noise& noise, std::int64_t row, float* to) const {
    for (std::int64_t i = 0; i < dims_; ++i) to[i] = in_unit(2 * noise.uniform(row, 1 + i) - 1.0);
  }
  void act_by_policy(const Noise* noise, std::int64_t row, const float* column, float* to) const {
    for (std::int64_t i = 0; i < dims_; ++i) {
      const double mean = column[i * kPanel];
      const double z = noise ? deviation() * noise->normal(row, 1 + dims_ + 2 * i) : 0;
      if (stochastic_) {
        const double log_std = std::clamp(column[(dims_ + i) * kPanel], kLeastLogStd, kMostLogStd);
        to[i] = in_unit(std::tanh(mean + std::exp(log_std) * z));
      } else {
        to[i] = in_unit(std::clamp(std::tanh(mean) + z, -1.0, 1.0));
      }
    }
  }

  void act_with_tensors(const ActIn& in, at::Tensor& action) {
    const auto x = input_(in.observation);
    const auto n = x.size(0);
    const auto out = networks_.policy_mlp.forward(networks_.policy, x);
    const auto mean = out.narrow(1, 0, dims_);
    auto chosen = mean.tanh();
    if (!in.greedy) {
      const Noise noise(in.noise);
      const auto exploration = there_.of(exploration_, x.device());
      const auto z = noise.normal({n, 1 + dims_, dims_}, x.device()) * exploration[1];
      const auto u = noise.uniform({n, 0, 1 + dims_}, x.device());
      if (stochastic_)
        chosen =
            (mean + out.narrow(1, dims_, dims_).clamp(kLeastLogStd, kMostLogStd).exp() * z).tanh();
      else
        chosen = (chosen + z).clamp(-1, 1);
      chosen =
          at::where(u.narrow(1, 0, 1).lt(exploration[0]), u.narrow(1, 1, dims_) * 2 - 1, chosen);
    }
    action.copy_(chosen * half_width_ + middle_);
  }

  AgentSpec spec_{.info = {}, .state = {}, .values = false};
  FlatInput input_;
  std::int64_t dims_;
  bool stochastic_;
  double middle_, half_width_;
  Networks networks_;
  at::Tensor exploration_ = at::tensor({1.0F, 1.0F});
  DeviceCopy there_;                // of it
  std::optional<PanelMlp> acting_;  // for as many panels as acted last
  PanelBuffer turned_;              // its input
  std::int64_t panels_ = 0;
};

}  // namespace

std::unique_ptr<QpgAgent> make_qpg_agent(const EnvSpec& spec, const QpgAgentOptions& options,
                                         std::uint64_t seed) {
  require(spec.action.size() == 1 && spec.action[0].kind == ActionSpec::Kind::kBox,
          "{}: control is learned for one action of real numbers, and this environment has another "
          "kind",
          spec.id);
  const auto& action = spec.action[0];
  require(action.bounded() && action.low < action.high,
          "{}: actions lie in [{}, {}]; control needs finite bounds, of which the first is smaller",
          spec.id, action.low, action.high);
  require(options.critics >= 1, "{} critics; at least 1 is needed", options.critics);
  for (const auto units : options.hidden)
    require(units > 0, "a hidden layer of {} units; a layer needs at least 1", units);
  return std::make_unique<MlpQpgAgent>(spec, options, seed);
}

}  // namespace shoal
