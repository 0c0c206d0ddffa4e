#pragma once

#include <memory>
#include <utility>

#include "shoal/agents/actor_critic.h"
#include "shoal/models/actor_critic.h"

namespace shoal::testing {

// A model without a separate network for acting, as on a device.
class PlainModel : public ActorCriticModel {
 public:
  explicit PlainModel(std::shared_ptr<ActorCriticModel> model)
      : model_(register_module("model", std::move(model))) {}
  ModelOut forward(const ModelIn& in) override { return model_->forward(in); }
  NamedSpecs state() const override { return model_->state(); }

 private:
  std::shared_ptr<ActorCriticModel> model_;
};

// An actor-critic of a plain model, made with seed 3.
inline std::unique_ptr<ActorCritic> make_plain_actor_critic(
    const EnvFactory& make_env, const ModelOptions& model = {},
    const ActorCriticOptions& options = {}) {
  const auto spec = make_env({})->spec();
  return make_actor_critic(
      spec,
      std::make_shared<PlainModel>(
          make_model(spec.observation, policy_size(spec, options), model, 3, spec.action)),
      options);
}

}  // namespace shoal::testing
