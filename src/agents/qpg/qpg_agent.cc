#include "shoal/agents/qpg_agent.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "shoal/core/error.h"
#include "src/agents/device_copy.h"
#include "src/agents/pg/head.h"
#include "src/agents/qpg/networks.h"
#include "src/compute/accelerator.h"
#include "src/models/flat_input.h"
#include "src/models/panel_mlp.h"

namespace shoal {
namespace {

const double kLogRootTwoPi = 0.5 * std::log(2 * std::numbers::pi);

struct NetworkSet {
  FlatMlp policy_mlp, critic_mlp;  // as in QpgAgent::Networks
  std::shared_ptr<PolicyNetwork> policy, target_policy;
  std::shared_ptr<CriticNetwork> critics, target_critics;
};

// Everything but acting on the CPU in the form that is fastest there.
class NetworkQpgAgent : public QpgAgent {
 public:
  NetworkQpgAgent(const ActionSpec& action, bool stochastic, NetworkSet networks)
      : dims_(action.dims),
        stochastic_(stochastic),
        middle_((action.low + action.high) / 2),
        half_width_((action.high - action.low) / 2),
        set_(std::move(networks)) {
    for (auto* target : targets())
      for (auto& parameter : target->parameters()) parameter.set_requires_grad(false);
    view_networks();
    NetworkQpgAgent::move_targets(at::ones({}));
  }

  const AgentSpec& spec() const override { return spec_; }
  const Networks& networks() const override { return networks_; }
  bool stochastic() const override { return stochastic_; }
  std::int64_t dims() const override { return dims_; }
  double middle() const override { return middle_; }
  double half_width() const override { return half_width_; }
  at::Tensor exploration() override { return exploration_; }

  void act(const ActIn& in, ActOut& out) override {
    torch::NoGradGuard no_grad;
    auto& action = out.action[0];
    if (!is_host(device()) || !run(in)) return act_with_tensors(in, action);
    const auto n = action.size(0);
    const Noise noise(in.noise);
    auto* to = action.data_ptr<float>();
    for (std::int64_t row = 0; row < n; ++row, to += dims_) {
      if (!in.greedy && noise.uniform(row, 0) < random())
        act_at_random(noise, row, to);
      else
        act_by_policy(in.greedy ? nullptr : &noise, row, output(row), to);
    }
  }

  // The value of the greedy action: the smallest one of the critics'.
  void value(const ActIn& in, at::Tensor& value) override {
    torch::NoGradGuard no_grad;
    value.copy_(policy_outputs(in, {}).value);
  }

  PolicyOut policy_outputs(const ActIn& in, const at::Tensor& noise) override {
    const auto x = input(in.observation);
    const auto numbers = policy(x, false), mean = numbers.narrow(1, 0, dims_);
    const auto action = mean.tanh();
    PolicyOut out{.action = action * half_width_ + middle_,
                  .value = values(x, action, false).amin(0)};
    if (!stochastic_) return out;
    const auto log_std = numbers.narrow(1, dims_, dims_).clamp(kLeastLogStd, kMostLogStd);
    out.distribution = {{"mean", mean}, {"std", log_std.exp()}};
    if (!noise.defined()) return out;
    const auto z = normal_of(noise.unflatten(1, {dims_, 2})), drawn = mean + log_std.exp() * z;
    // The logarithm of the slope of tanh, without the cancellation.
    const auto log_slope = 2 * (std::numbers::ln2 - drawn - at::softplus(-2 * drawn));
    out.sample = drawn.tanh() * half_width_ + middle_;
    out.log_prob = (-0.5 * z.square() - log_std - kLogRootTwoPi - log_slope).sum(1);
    return out;
  }
  std::int64_t policy_noise() const override { return stochastic_ ? 2 * dims_ : 0; }

  at::Tensor policy(const Observations& x, bool target) override {
    return (target ? set_.target_policy : set_.policy)->forward(x);
  }
  at::Tensor values(const Observations& x, const at::Tensor& action, bool target) override {
    return (target ? set_.target_critics : set_.critics)->forward(x, action);
  }
  at::Tensor policy_gradient(const at::Tensor& loss) override {
    return set_.policy->gradient(loss);
  }
  at::Tensor critics_gradient(const at::Tensor& loss) override {
    return set_.critics->gradient(loss);
  }
  void move_targets(const at::Tensor& fraction) override {
    set_.target_critics->move_towards(*set_.critics, fraction);
    if (set_.target_policy) set_.target_policy->move_towards(*set_.policy, fraction);
  }

  NamedTensors parameters() override {
    NamedTensors all;
    set_.policy->add_to(all, "policy");
    set_.critics->add_to(all, "critics");
    set_.target_critics->add_to(all, "target/critics");
    if (set_.target_policy) set_.target_policy->add_to(all, "target/policy");
    all.add("exploration", exploration_);
    return all;
  }

  NamedTensors acting_parameters() override {
    NamedTensors all;
    set_.policy->add_to(all, "policy");
    all.add("exploration", exploration_);
    return all;
  }

  void before_rollout(bool) override { exploration_there_.of(exploration_, device()); }

  void to(at::Device device) override {
    set_.policy->move_to(device);
    set_.critics->move_to(device);
    for (auto* target : targets()) target->move_to(device);
    view_networks();
    parameters_changed();
  }
  at::Device device() const override { return networks_.policy.device(); }

 protected:
  // Numbers of the policy's output for one row: number i is at first[i * stride].
  struct Output {
    const float* first;
    std::int64_t stride;
  };
  // Computes the policy's output on the CPU; false: tensor operations are to do it.
  virtual bool run(const ActIn& in) = 0;
  virtual Output output(std::int64_t row) const = 0;  // of the last run()

  const NetworkSet& set() const { return set_; }

 private:
  std::vector<QpgNetwork*> targets() const {
    std::vector<QpgNetwork*> all{set_.target_critics.get()};
    if (set_.target_policy) all.push_back(set_.target_policy.get());
    return all;
  }
  void view_networks() {
    networks_ = {.policy_mlp = set_.policy_mlp,
                 .critic_mlp = set_.critic_mlp,
                 .policy = set_.policy->flat(),
                 .target_policy = set_.target_policy ? set_.target_policy->flat() : at::Tensor(),
                 .critics = set_.critics->flat(),
                 .target_critics = set_.target_critics->flat()};
  }

  float random() const { return exploration_.const_data_ptr<float>()[0]; }
  float deviation() const { return exploration_.const_data_ptr<float>()[1]; }
  float in_unit(double action) const { return static_cast<float>(action * half_width_ + middle_); }

  // Number 0 of a row's noise decides whether it acts at random, and the next `dims` numbers are
  // the random action. The rest makes normal numbers, two for each.
  void act_at_random(const Noise& noise, std::int64_t row, float* to) const {
    for (std::int64_t i = 0; i < dims_; ++i) to[i] = in_unit(2 * noise.uniform(row, 1 + i) - 1.0);
  }
  void act_by_policy(const Noise* noise, std::int64_t row, const Output& out, float* to) const {
    for (std::int64_t i = 0; i < dims_; ++i) {
      const double mean = out.first[i * out.stride];
      const double z = noise ? deviation() * noise->normal(row, 1 + dims_ + 2 * i) : 0;
      if (stochastic_) {
        const double log_std =
            std::clamp(out.first[(dims_ + i) * out.stride], kLeastLogStd, kMostLogStd);
        to[i] = in_unit(std::tanh(mean + std::exp(log_std) * z));
      } else {
        to[i] = in_unit(std::clamp(std::tanh(mean) + z, -1.0, 1.0));
      }
    }
  }

  void act_with_tensors(const ActIn& in, at::Tensor& action) {
    const auto out = policy(input(in.observation), false);
    const auto n = out.size(0);
    const auto mean = out.narrow(1, 0, dims_);
    auto chosen = mean.tanh();
    if (!in.greedy) {
      const Noise noise(in.noise);
      const auto exploration = exploration_there_.of(exploration_, out.device());
      const auto z = noise.normal({n, 1 + dims_, dims_}, out.device()) * exploration[1];
      const auto u = noise.uniform({n, 0, 1 + dims_}, out.device());
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
  std::int64_t dims_;
  bool stochastic_;
  double middle_, half_width_;
  NetworkSet set_;
  Networks networks_;  // views of set_
  at::Tensor exploration_ = at::tensor({1.0F, 1.0F});
  DeviceCopy exploration_there_;
};

class MlpQpgAgent : public NetworkQpgAgent {
 public:
  MlpQpgAgent(FlatInput input, const ActionSpec& action, bool stochastic, NetworkSet networks)
      : NetworkQpgAgent(action, stochastic, std::move(networks)), input_(std::move(input)) {}

  Observations input(const Observations& observation) const override {
    return Observed{input_(observation), {}};
  }

  bool rows_are_independent() const override { return is_host(device()); }

 private:
  bool run(const ActIn& in) override {
    const auto x = input_(in.observation).contiguous();
    const auto n = x.size(0), width = x.size(1), panels = panels_of(n);
    if (!acting_ || panels != panels_) {
      acting_.emplace(set().policy_mlp, panels, /*learns=*/false);
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
      acting_->forward(networks().policy.const_data_ptr<float>(), {turned_.data, width * kPanel},
                       {first, last, last == panels ? columns : kPanel});
    });
    return true;
  }
  Output output(std::int64_t row) const override {
    return {acting_->output(row / kPanel) + row % kPanel, kPanel};
  }

  FlatInput input_;
  std::optional<PanelMlp> acting_;  // for as many panels as acted last
  PanelBuffer turned_;              // its input
  std::int64_t panels_ = 0;
};

// The policy is a model, and so is the critics' encoder.
class ModelQpgAgent : public NetworkQpgAgent {
 public:
  ModelQpgAgent(const ActionSpec& action, bool stochastic, NetworkSet networks,
                std::shared_ptr<ActorCriticModel> policy)
      : NetworkQpgAgent(action, stochastic, std::move(networks)), policy_(std::move(policy)) {
    parameters_changed();
  }

  Observations input(const Observations& observation) const override { return observation; }

  void parameters_changed() override {
    acting_is_old_ = true;
    if (!is_host(device()))
      acting_ = nullptr;
    else if (!acting_)
      acting_ = policy_->make_acting_network(Precision::kFloat32);
  }

  bool rows_are_independent() const override { return acting_ && acting_->rows_are_independent(); }

 private:
  bool run(const ActIn& in) override {
    if (!acting_) return false;
    const auto n = in.observation[0].size(), numbers = stochastic() ? 2 * dims() : dims();
    if (!outputs_.defined() || outputs_.size(0) != n) {
      outputs_ = at::empty({n, numbers});
      unused_ = at::empty({n});
    }
    if (std::exchange(acting_is_old_, false)) acting_->refresh();
    acting_->run(in.observation, outputs_, unused_, in.noise.first_env);
    return true;
  }
  Output output(std::int64_t row) const override {
    return {outputs_.const_data_ptr<float>() + row * outputs_.size(1), 1};
  }

  std::shared_ptr<ActorCriticModel> policy_;
  std::unique_ptr<ActingNetwork> acting_;  // null: on a device, or the model has none
  at::Tensor outputs_, unused_;            // of it; the model's value is not used
  bool acting_is_old_ = true;
};

const ActionSpec& checked_action(const EnvSpec& spec, const QpgAgentOptions& options) {
  require(spec.action.size() == 1 && spec.action[0].kind == ActionSpec::Kind::kBox,
          "{}: found another kind of action than one of real numbers, which continuous control "
          "needs; choose an algorithm for its actions, such as ppo",
          spec.id);
  const auto& action = spec.action[0];
  require(action.bounded() && action.low < action.high,
          "{}: found actions in [{}, {}], expected finite bounds, the first one smaller", spec.id,
          action.low, action.high);
  require(options.critics >= 1, "found {} critics, expected at least 1", options.critics);
  for (const auto units : options.hidden)
    require(units > 0, "found a hidden layer of {} units, expected at least 1", units);
  return action;
}

FlatMlp mlp_of(std::int64_t in, const std::vector<std::int64_t>& hidden, std::int64_t out) {
  FlatMlp mlp{{in}};
  mlp.widths.insert(mlp.widths.end(), hidden.begin(), hidden.end());
  mlp.widths.push_back(out);
  return mlp;
}

std::int64_t policy_output_size(const ActionSpec& action, const QpgAgentOptions& options) {
  return options.stochastic ? 2 * action.dims : action.dims;
}

}  // namespace

std::unique_ptr<QpgAgent> make_qpg_agent(const EnvSpec& spec, const QpgAgentOptions& options,
                                         std::uint64_t seed) {
  const auto& action = checked_action(spec, options);
  const FlatInput input(spec.observation);
  NetworkSet set;
  set.policy_mlp = mlp_of(input.width(), options.hidden, policy_output_size(action, options));
  set.critic_mlp = mlp_of(input.width() + action.dims, options.hidden, 1);
  const auto policy = [&] { return std::make_shared<PolicyNetwork>(set.policy_mlp, seed); };
  const auto critics = [&] {
    return std::make_shared<CriticNetwork>(set.critic_mlp, options.critics, seed);
  };
  set.policy = policy(), set.critics = critics(), set.target_critics = critics();
  if (!options.stochastic) set.target_policy = policy();
  return std::make_unique<MlpQpgAgent>(input, action, options.stochastic, std::move(set));
}

std::unique_ptr<QpgAgent> make_qpg_agent(const EnvSpec& spec, const ModelOptions& wanted,
                                         const QpgAgentOptions& given, std::uint64_t seed) {
  auto model = wanted;
  model.name = model_for(spec.observation, wanted);
  model.shared_trunk = true;  // so that the unused value head costs no extra layers
  auto options = given;
  options.hidden = model.hidden;
  require(model.memory == MemoryKind::kNone,
          "found a model with a memory, expected one without: SAC, TD3 and DDPG learn from single "
          "steps; set ModelOptions::memory to none");
  if (model.name == "mlp") return make_qpg_agent(spec, options, seed);
  const auto& action = checked_action(spec, options);
  const auto make = [&](std::int64_t outputs, std::uint64_t own_seed) {
    auto made = make_model(spec.observation, outputs, model, own_seed);
    require(
        made->state().empty(),
        "model '{}': found a state, expected a feed-forward model: SAC, TD3 and DDPG learn from "
        "single steps; choose another model, or r2d1, ppo, a2c or impala",
        model.name);
    return made;
  };
  const auto make_policy = [&] { return make(policy_output_size(action, options), seed); };
  NetworkSet set;
  set.critic_mlp = mlp_of(CriticNetwork::kFeatures + action.dims, options.hidden, 1);
  const auto critics = [&] {
    const auto encoder = make(CriticNetwork::kFeatures, critic_seed(seed, options.critics));
    return std::make_shared<CriticNetwork>(set.critic_mlp, options.critics, seed, encoder);
  };
  auto policy = make_policy();
  set.policy = std::make_shared<PolicyNetwork>(policy);
  set.critics = critics(), set.target_critics = critics();
  if (!options.stochastic) set.target_policy = std::make_shared<PolicyNetwork>(make_policy());
  return std::make_unique<ModelQpgAgent>(action, options.stochastic, std::move(set),
                                         std::move(policy));
}

}  // namespace shoal
