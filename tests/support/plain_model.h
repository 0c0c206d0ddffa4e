#pragma once

#include <memory>
#include <utility>

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

}  // namespace shoal::testing
