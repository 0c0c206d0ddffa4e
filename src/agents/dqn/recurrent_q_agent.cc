#include "shoal/agents/recurrent_q_agent.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "src/agents/dqn/epsilon_greedy.h"
#include "src/agents/dqn/noisy_network.h"
#include "src/compute/accelerator.h"
#include "src/models/run_model.h"

namespace shoal {
namespace {

class NetworkRecurrentQAgent : public RecurrentQAgent {
 public:
  NetworkRecurrentQAgent(std::int64_t actions, std::shared_ptr<ActorCriticModel> online,
                         std::shared_ptr<ActorCriticModel> target,
                         const RecurrentQAgentOptions& options)
      : actions_(actions),
        dueling_(options.dueling),
        spec_{.info = {}, .state = online->state(), .values = false},
        online_(std::move(online), /*deviation=*/0),
        target_(std::move(target), /*deviation=*/0),
        explorer_(actions, options.epsilons) {
    for (auto& parameter : target_.model().parameters()) parameter.set_requires_grad(false);
    update_target(1);
    parameters_changed();
  }

  const AgentSpec& spec() const override { return spec_; }

  // Advantages suffice to choose an action: all actions share the state value.
  void act(const ActIn& in, ActOut& out) override {
    torch::NoGradGuard no_grad;
    auto& action = out.action[0];
    const auto model_in = inputs(in);
    if (!acting_) {
      const auto said = run_model(online_.model(), model_in, actions_);
      explorer_.choose(in, said.policy, action);
      for (const auto& [name, state] : said.state) out.state.at(name).copy_(state);
      return;
    }
    ModelOut said{at::empty({action.size(0), actions_}), at::empty({action.size(0)}), out.state};
    acting_->run(model_in, said);
    explorer_.choose_by_rows(in, said.policy, action);
  }

  void value(const ActIn& in, at::Tensor& value) override {
    torch::NoGradGuard no_grad;
    value.copy_(std::get<0>(values_of(online_.model(), inputs(in)).values.max(1)));
  }

  PolicyOut policy_outputs(const ActIn& in, const at::Tensor&) override {
    const auto found = values_of(online_.model(), inputs(in));
    auto out = greedy_outputs(found.values, in.mask);
    out.state = found.state;
    return out;
  }

  SequenceValues values(const ModelIn& in) override { return values_of(online_.model(), in); }
  SequenceValues target_values(const ModelIn& in) override {
    torch::NoGradGuard no_grad;
    return values_of(target_.model(), in);
  }
  void update_target(double share) override { target_.move_towards(online_, share); }

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
    return all;
  }
  void parameters_changed() override {
    if (!is_host(device()))
      acting_ = nullptr;
    else if (acting_)
      acting_->refresh();
    else
      acting_ = online_.model().make_recurrent_acting();
  }
  void before_rollout(bool) override { explorer_.before_rollout(device()); }
  bool rows_are_independent() const override { return acting_ && acting_->rows_are_independent(); }
  void to(at::Device device) override {
    online_.to(device);
    target_.to(device);
    acting_ = nullptr;
    parameters_changed();
  }
  at::Device device() const override { return online_.model().parameters().front().device(); }

 private:
  static ModelIn inputs(const ActIn& in) {
    return {in.observation, in.state, in.is_first, 1, in.previous_action, in.previous_reward};
  }
  SequenceValues values_of(ActorCriticModel& model, const ModelIn& in) const {
    const auto out = run_model(model, in, actions_);
    if (!dueling_) return {out.policy, out.state};
    return {out.value.unsqueeze(1) + out.policy - out.policy.mean(1, /*keepdim=*/true), out.state};
  }

  std::int64_t actions_;
  bool dueling_;
  AgentSpec spec_;
  NoisyNetwork online_, target_;
  EpsilonGreedy explorer_;
  std::unique_ptr<RecurrentActing> acting_;  // null: forward() is used
};

}  // namespace

std::unique_ptr<RecurrentQAgent> make_recurrent_q_agent(const EnvSpec& spec,
                                                        std::shared_ptr<ActorCriticModel> model,
                                                        std::shared_ptr<ActorCriticModel> target,
                                                        const RecurrentQAgentOptions& options) {
  require(options.epsilons >= 1, "epsilons: found {}, expected at least 1", options.epsilons);
  require(model && target && model != target,
          "models: found one or none, expected two, one for each network");
  require(!model->state().empty(),
          "model: found a feed-forward one, but this Q-agent learns from sequences; set "
          "ModelOptions::memory");
  return std::make_unique<NetworkRecurrentQAgent>(valued_actions(spec), std::move(model),
                                                  std::move(target), options);
}

std::unique_ptr<RecurrentQAgent> make_recurrent_q_agent(const EnvSpec& spec,
                                                        const ModelOptions& model,
                                                        const RecurrentQAgentOptions& options,
                                                        std::uint64_t seed) {
  const auto make = [&] {
    return make_model(spec.observation, valued_actions(spec), model, seed, spec.action);
  };
  return make_recurrent_q_agent(spec, make(), make(), options);
}

}  // namespace shoal
