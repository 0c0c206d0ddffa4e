// An environment, a model and an algorithm of your own, available by name in the whole command
// line:
//
//   build/release/bin/examples/6_own_command list envs
//   build/release/bin/examples/6_own_command train --env ShortPole-v0 --algo reinforce
//       --set model.name=linear
#include <torch/torch.h>

#include "shoal/algos/algo_spec.h"
#include "shoal/algos/returns.h"
#include "shoal/cli/command_line.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/registry.h"
#include "shoal/envs/wrappers.h"
#include "shoal/models/actor_critic.h"

// [model]
// Policy and value are linear in the observation. As in torch, modules are registered under a name,
// by which checkpoints and optimizers find them.
class LinearModel : public shoal::ActorCriticModel {
 public:
  LinearModel(const shoal::NamedSpecs& observation, std::int64_t policy_size)
      : policy_(register_module("policy", torch::nn::Linear(observation[0].count(), policy_size))),
        value_(register_module("value", torch::nn::Linear(observation[0].count(), 1))) {}

  shoal::ModelOut forward(const shoal::ModelIn& in) override {
    const auto x = in.observation[0].dense().flatten(1);  // [N, ...] -> [N, width]
    return {.policy = policy_(x), .value = value_(x).squeeze(1), .state = {}};
  }

 private:
  torch::nn::Linear policy_, value_;
};
// [model]

// [algo]
struct ReinforceOptions {
  double learning_rate = 3e-3;
  double discount = 0.99;
};

// The settings of the algorithm: the table [reinforce] in files, for --set and `list settings`.
shoal::OptionList describe(ReinforceOptions& o) {
  shoal::OptionList list("reinforce");
  list.add("learning_rate", o.learning_rate, "learning rate", shoal::kRate);
  list.add("discount", o.discount, "discount (gamma)", shoal::kShare);
  return list;
}

// REINFORCE with a baseline (Williams, 1992): one gradient step per rollout.
class Reinforce : public shoal::OnPolicyAlgo {
 public:
  Reinforce(shoal::ActorCritic& agent, const ReinforceOptions& options)
      : agent_(agent),
        options_(options),
        optimizer_(agent.learnable(), torch::optim::SGDOptions(options.learning_rate)) {}

  shoal::Metrics update(const shoal::Samples& s, const shoal::Progress&) override {
    const auto n = s.T * s.B;  // all steps of the rollout, time-major
    const auto [advantage, target] =
        shoal::generalized_advantages(s, s.agent_info.at("value"), options_.discount,
                                      /*lambda=*/1);
    const auto now = agent_.evaluate(
        {.observation = s.observed[0].narrow(0, n), .action = s.action[0].flatten(0, 1)});
    const auto policy_loss = -(now.log_prob * advantage.flatten()).mean();
    const auto value_loss = (now.value - target.flatten()).square().mean();
    optimizer_.zero_grad();
    (policy_loss + value_loss).backward();
    optimizer_.step();
    agent_.observe(s);            // the agent may keep statistics of observations
    agent_.parameters_changed();  // acting may use a copy of the parameters
    return {{"policy_loss", policy_loss.item<double>()}, {"value_loss", value_loss.item<double>()}};
  }
  shoal::NamedTensors state() override { return {}; }  // plain SGD has no state

 private:
  shoal::ActorCritic& agent_;
  ReinforceOptions options_;
  torch::optim::SGD optimizer_;
};

class ReinforceSpec : public shoal::SpecOf<ReinforceSpec, shoal::OnPolicySpec, ReinforceOptions> {
 public:
  std::string name() const override { return "reinforce"; }
  std::string description() const override { return "REINFORCE (Williams, 1992)"; }
  double discount(const shoal::RunOptions&) const override { return own_.discount; }
  std::unique_ptr<shoal::OnPolicyAlgo> make(shoal::Agent& agent, const shoal::RunOptions&,
                                            shoal::ProcessGroup&) const override {
    return std::make_unique<Reinforce>(dynamic_cast<shoal::ActorCritic&>(agent), own_);
  }
};
// [algo]

int main(int argc, char** argv) {
  // [register]
  shoal::register_env("ShortPole-v0", shoal::with_time_limit(shoal::make_cart_pole(), 100));
  shoal::register_model("linear", [](const auto& observation, auto policy_size, const auto&) {
    return std::make_shared<LinearModel>(observation, policy_size);
  });
  shoal::register_algo(std::make_unique<ReinforceSpec>());
  return shoal::run_command_line(argc, argv);
  // [register]
}
