#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "shoal/agents/actor_critic.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

// The logits are the observation times one parameter; the value is their sum. With or without an
// ActingNetwork: an agent on a GPU has none, and chooses with tensor
// operations.
class EchoModel : public ActorCriticModel {
 public:
  explicit EchoModel(bool acting_network) : acting_network_(acting_network) {
    scale_ = register_parameter("scale", at::ones({1}));
  }

  ModelOut forward(const ModelIn& in) override {
    const auto logits = in.observation[0].dense() * scale_;
    return {logits, logits.sum(1), {}};
  }

  std::unique_ptr<ActingNetwork> make_acting_network(Precision) const override {
    return acting_network_ ? std::make_unique<Acting>(*this) : nullptr;
  }

 private:
  class Acting : public ActingNetwork {
   public:
    explicit Acting(const EchoModel& model) : model_(model) { refresh(); }
    void refresh() override { scale_ = model_.scale_.detach().clone(); }
    std::string description() const override { return "echo"; }
    void run(const Observations& observation, at::Tensor& policy, at::Tensor& value,
             std::int64_t) override {
      policy.copy_(observation[0].data * scale_);
      value.copy_(policy.sum(1));
    }

   private:
    const EchoModel& model_;
    at::Tensor scale_;
  };

  bool acting_network_;
  at::Tensor scale_;
};

inline EnvSpec discrete_env(std::int64_t width, std::int64_t choices) {
  return {.id = "Toy",
          .observation = ArraySpec{.shape = {width}},
          .action = ActionSpec::discrete(choices)};
}

// Chooses among `choices` by logits that the observation gives.
inline std::unique_ptr<ActorCritic> make_echo_agent(std::int64_t choices, bool acting_network) {
  return make_actor_critic(discrete_env(choices, choices),
                           std::make_shared<EchoModel>(acting_network));
}

// One act, into tensors that held something else.
struct Acted {
  at::Tensor action, log_prob, value;
};

inline Acted act(Agent& agent, const ActIn& in) {
  const auto n = in.observation[0].size();
  ActOut out{.action = at::full({n}, -9, at::kLong),
             .agent_info = {{"log_prob", at::full({n}, 9.0F)}, {"value", at::full({n}, 1e9F)}}};
  agent.act(in, out);
  return {out.action[0], out.agent_info.at("log_prob"), out.agent_info.at("value")};
}

inline ActIn acting_on(const at::Tensor& observation, const NoiseKey& noise = {}) {
  return {.observation = Observed{observation, {}}, .noise = noise};
}

inline Evaluation evaluate(ActorCritic& agent, const at::Tensor& observation,
                           const at::Tensor& action, const NamedTensors& mask = {}) {
  return agent.evaluate({.observation = Observed{observation, {}}, .action = action, .mask = mask});
}

}  // namespace shoal
