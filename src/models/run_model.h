#pragma once

#include <cstdint>

#include "shoal/models/actor_critic.h"

namespace shoal {

// model.forward(), where no gradients are recorded in evaluation mode: acting, values and targets
// are without dropout, and BatchNorm uses its running statistics. Parts that were in evaluation
// mode already, e.g. frozen ones, remain in it.
ModelOut run_model(ActorCriticModel& model, const ModelIn& in);
// The same of a model that must have so many outputs for the policy: see require_outputs().
ModelOut run_model(ActorCriticModel& model, const ModelIn& in, std::int64_t outputs);

// Throws Error unless the model has as many outputs for the policy as its agent reads.
void require_outputs(std::int64_t found, std::int64_t expected);

}  // namespace shoal
