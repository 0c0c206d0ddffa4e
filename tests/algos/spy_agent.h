#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/agents/actor_critic.h"

namespace shoal {

// Forwards all calls to another agent and records those of the algorithm.
class SpyAgent : public ActorCritic {
 public:
  explicit SpyAgent(std::unique_ptr<ActorCritic> agent) : agent_(std::move(agent)) {}

  const AgentSpec& spec() const override { return agent_->spec(); }
  void act(const ActIn& in, ActOut& out) override { agent_->act(in, out); }
  void value(const ActIn& in, at::Tensor& value) override { agent_->value(in, value); }
  NamedTensors parameters() override { return agent_->parameters(); }
  void parameters_changed() override {
    ++changes;
    order.emplace_back("parameters_changed");
    agent_->parameters_changed();
  }
  void to(at::Device device) override { agent_->to(device); }
  at::Device device() const override { return agent_->device(); }
  std::vector<at::Tensor> learnable() override { return agent_->learnable(); }
  NamedTensors statistics(const Samples& samples) override { return agent_->statistics(samples); }
  void add_statistics(const NamedTensors& found) override {
    order.emplace_back("observe");
    agent_->add_statistics(found);
  }
  Evaluation evaluate(const EvaluateIn& in) override {
    asked.push_back(in);
    order.emplace_back("evaluate");
    return agent_->evaluate(in);
  }

  std::vector<EvaluateIn> asked;   // one for each minibatch
  int changes = 0;                 // calls of parameters_changed()
  std::vector<std::string> order;  // of all these calls

 private:
  std::unique_ptr<ActorCritic> agent_;
};

inline SpyAgent make_spy(std::int64_t width, std::int64_t choices) {
  const EnvSpec spec{.id = "Toy",
                     .observation = ArraySpec{.shape = {width}},
                     .action = ActionSpec::discrete(choices)};
  return SpyAgent(make_actor_critic(spec, {.hidden = {16}}, {}, 1));
}

}  // namespace shoal
