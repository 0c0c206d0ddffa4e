#include "shoal/agents/q_agent.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/data/saved.h"
#include "src/agents/dqn/epsilon_greedy.h"
#include "src/agents/dqn/noisy_network.h"
#include "src/compute/accelerator.h"
#include "src/models/run_model.h"

namespace shoal {
namespace {

class NetworkQAgent : public QAgent {
 public:
  NetworkQAgent(std::int64_t actions, NoisyNetwork online, NoisyNetwork target,
                const QAgentOptions& options, std::uint64_t seed)
      : actions_(actions),
        atoms_(atoms_of(options)),
        options_(options),
        online_(std::move(online)),
        target_(std::move(target)),
        explorer_(actions, options.epsilons),
        noise_seed_(env_seed(seed, Stream::kTrain, -2)),
        noise_drawn_(at::zeros({}, at::kLong)),
        shared_(static_cast<std::size_t>(atoms_)),
        logits_(static_cast<std::size_t>(atoms_)) {
    for (auto& parameter : target_.model().parameters()) parameter.set_requires_grad(false);
    if (options.returns == ReturnKind::kCategorical)
      support_ = at::linspace(options.v_min, options.v_max, atoms_);
    update_target(1);
    draw_noise();
    parameters_changed();
  }

  const AgentSpec& spec() const override { return spec_; }
  const QAgentOptions& options() const override { return options_; }

  void act(const ActIn& in, ActOut& out) override {
    torch::NoGradGuard no_grad;
    auto& action = out.action[0];
    use_noise(!in.greedy);
    if (acting_)
      explorer_.choose_by_rows(in, run(in), action);
    else
      explorer_.choose(in, values_of(online_, in.observation), action);
  }

  void value(const ActIn& in, at::Tensor& value) override {
    torch::NoGradGuard no_grad;
    use_noise(!in.greedy);
    value.copy_(std::get<0>(values_of(online_, in.observation).max(1)));
  }

  PolicyOut policy_outputs(const ActIn& in, const at::Tensor&) override {
    use_noise(false);
    return greedy_outputs(values_of(online_, in.observation), in.mask);
  }

  NamedTensors policy_parameters() override {
    use_noise(false);
    return online_.weights();
  }

  at::Tensor returns(const Observations& observation) override {
    use_noise(true);
    return returns_of(online_, observation);
  }
  at::Tensor target_returns(const Observations& observation) override {
    torch::NoGradGuard no_grad;
    target_.use(true);
    return returns_of(target_, observation);
  }
  at::Tensor support() const override { return support_; }
  at::Tensor means(const at::Tensor& returns) const override {
    switch (options_.returns) {
      case ReturnKind::kMean:
        return returns.squeeze(-1);
      case ReturnKind::kCategorical:
        return returns.softmax(-1).matmul(support_);
      case ReturnKind::kQuantile:
        return returns.mean(-1);
    }
    return {};
  }

  void update_target(double share) override { target_.move_towards(online_, share); }
  void draw_noise() override {
    if (!online_.noisy()) return;
    Rng rng(noise_seed_, static_cast<std::uint64_t>(noise_drawn_.item<std::int64_t>()));
    online_.draw(rng);
    target_.draw(rng);
    noise_drawn_.fill_(static_cast<std::int64_t>(rng.counter()));
  }
  std::vector<at::Tensor> learnable() override { return online_.learnable(); }
  std::vector<at::Tensor> gradients(const at::Tensor& loss) override {
    return online_.gradients(loss);
  }
  at::Tensor epsilon() override { return explorer_.epsilon(); }

  NamedTensors parameters() override {
    NamedTensors all = acting_parameters();
    add_with_prefix("target/", target_.parameters(), all);
    return all;
  }
  NamedTensors acting_parameters() override {
    NamedTensors all = online_.parameters();
    all.add("epsilon", explorer_.epsilon());
    if (online_.noisy()) all.add("noise_drawn", noise_drawn_);
    return all;
  }
  void parameters_changed() override {
    online_.changed();
    target_.changed();
    if (!is_host(device()))
      acting_ = nullptr;
    else if (!acting_)
      acting_ = online_.model().make_acting_network(Precision::kFloat32);
  }
  void before_rollout(bool greedy) override {
    use_noise(!greedy);
    if (!is_host(device())) target_.use(true);  // a captured update must not do it each time
    explorer_.before_rollout(device());
  }
  bool rows_are_independent() const override { return acting_ && acting_->rows_are_independent(); }
  void to(at::Device device) override {
    online_.to(device);
    target_.to(device);
    if (support_.defined()) support_ = support_.to(device);
    acting_ = nullptr;
    parameters_changed();
  }
  at::Device device() const override { return online_.model().parameters().front().device(); }

 private:
  static std::int64_t atoms_of(const QAgentOptions& o) {
    return o.returns == ReturnKind::kMean ? 1 : o.atoms;
  }

  // run() refreshes the acting network if this has changed the weights.
  void use_noise(bool noise) {
    if (online_.use(noise)) acting_is_old_ = true;
  }

  at::Tensor returns_of(NoisyNetwork& network, const Observations& observation) const {
    const auto out =
        run_model(network.model(), {observation, {}, {}}, (actions_ + options_.dueling) * atoms_)
            .policy;
    auto of_action = out.narrow(1, 0, actions_ * atoms_).unflatten(1, {actions_, atoms_});
    if (!options_.dueling) return of_action;
    const auto of_observation = out.narrow(1, actions_ * atoms_, atoms_).unsqueeze(1);
    return of_observation + of_action - of_action.mean(1, /*keepdim=*/true);
  }
  at::Tensor values_of(NoisyNetwork& network, const Observations& observation) const {
    return means(returns_of(network, observation));
  }

  // Scores with the same order as the action values, [N, actions or more]. Rows are independent.
  const at::Tensor& run(const ActIn& in) {
    const auto n = in.observation[0].size(), outputs = (actions_ + options_.dueling) * atoms_;
    if (!outputs_.defined() || outputs_.size(0) != n) {
      outputs_ = at::empty({n, outputs});
      unused_ = at::empty({n});
      values_ = at::empty({n, actions_});
    }
    if (std::exchange(acting_is_old_, false)) acting_->refresh();
    acting_->run(in.observation, outputs_, unused_, in.noise.first_env);
    if (atoms_ == 1) return outputs_;  // the state value does not change the order
    const auto* from = outputs_.const_data_ptr<float>();
    auto* to = values_.data_ptr<float>();
    for (std::int64_t i = 0; i < n; ++i, from += outputs) {
      if (options_.dueling && support_.defined()) find_shared(from);
      for (std::int64_t a = 0; a < actions_; ++a) *to++ = mean_of(from, a);
    }
    return values_;
  }

  // Computes the term that the logits of all actions share. outputs: of one observation.
  void find_shared(const float* outputs) {
    const auto n = static_cast<float>(actions_);
    for (std::int64_t k = 0; k < atoms_; ++k) {
      float sum = 0;
      for (std::int64_t a = 0; a < actions_; ++a) sum += outputs[a * atoms_ + k];
      shared_[static_cast<std::size_t>(k)] = outputs[actions_ * atoms_ + k] - sum / n;
    }
  }

  // The mean return of action a, for quantiles up to a positive factor and a shared term.
  float mean_of(const float* outputs, std::int64_t a) {
    const auto* own = outputs + a * atoms_;
    if (options_.returns == ReturnKind::kQuantile)
      return std::accumulate(own, own + atoms_, 0.0F);  // other terms are shared by all actions
    std::transform(own, own + atoms_, shared_.begin(), logits_.begin(), std::plus<>());
    const float most = *std::ranges::max_element(logits_);
    const auto* at = support_.const_data_ptr<float>();
    float mean = 0, total = 0;
    for (const float logit : logits_) {
      const float weight = std::exp(logit - most);
      total += weight;
      mean += weight * *at++;
    }
    return mean / total;
  }

  std::int64_t actions_, atoms_;
  QAgentOptions options_;
  AgentSpec spec_{.info = {}, .state = {}, .values = false};
  NoisyNetwork online_, target_;
  at::Tensor support_;
  EpsilonGreedy explorer_;
  std::uint64_t noise_seed_;
  at::Tensor noise_drawn_;                 // random numbers drawn so far
  std::unique_ptr<ActingNetwork> acting_;  // null: on a GPU
  at::Tensor outputs_, unused_, values_;   // of acting_
  bool acting_is_old_ = true;              // the network has changed since the last refresh()
  std::vector<float> shared_, logits_;     // work space, [atoms]; shared_: 0 unless dueling
};

}  // namespace

std::int64_t q_output_size(const EnvSpec& spec, const QAgentOptions& o) {
  return (valued_actions(spec) + o.dueling) * (o.returns == ReturnKind::kMean ? 1 : o.atoms);
}

std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, std::shared_ptr<ActorCriticModel> model,
                                     std::shared_ptr<ActorCriticModel> target,
                                     const QAgentOptions& o, std::uint64_t seed) {
  require(o.epsilons >= 1, "epsilons: found {}, expected at least 1", o.epsilons);
  require(o.returns == ReturnKind::kMean || o.atoms >= 2, "atoms: found {}, expected at least 2",
          o.atoms);
  require(o.v_min < o.v_max, "v_min: found {}, expected less than v_max, {}", o.v_min, o.v_max);
  require(o.noise > 0, "noise: found {}, expected a number above 0", o.noise);
  require(model && target && model != target,
          "models: found one or none, expected two, one for each network");
  require(model->state().empty(),
          "model: found a recurrent one, but a Q-agent learns from single steps; use "
          "make_recurrent_q_agent()");
  const double noise = o.noisy ? o.noise : 0;
  return std::make_unique<NetworkQAgent>(valued_actions(spec),
                                         NoisyNetwork(std::move(model), noise),
                                         NoisyNetwork(std::move(target), noise), o, seed);
}

std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, const ModelOptions& model,
                                     const QAgentOptions& options, std::uint64_t seed) {
  auto shaped = model;
  shaped.shared_trunk = true;  // so that the unused value head costs no extra layers
  const auto make = [&] {
    return make_model(spec.observation, q_output_size(spec, options), shaped, seed);
  };
  return make_q_agent(spec, make(), make(), options, seed);
}

OptionList describe(QAgentOptions& o) {
  OptionList list("dqn");
  list.add("dueling", o.dueling, "dueling network: state value plus advantages");
  list.add("returns", o.returns,
           "statistics of returns that the network learns: mean | categorical | quantile");
  list.add("atoms", o.atoms, "number of categories or quantiles", within(2, 10'000));
  list.add("v_min", o.v_min, "lowest return of the categories", kAnySign);
  list.add("v_max", o.v_max, "highest return of the categories", kAnySign);
  list.add("noisy", o.noisy, "noisy networks, which explore without epsilon");
  list.add("noise", o.noise,
           "initial deviation of the weights, before its division by the root of a layer's inputs",
           above_0());
  return list;
}

}  // namespace shoal
