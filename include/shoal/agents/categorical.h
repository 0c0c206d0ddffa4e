#pragma once

#include <cstdint>
#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

struct CategoricalOptions {
  // Arithmetic of acting with the Nature CNN on the CPU; other models act in float32. The recorded
  // log-probability and value are those of the arithmetic that acted, so it is the true behaviour
  // policy; learning stays in float32.
  Precision act_precision = Precision::kFloat32;
};

// An actor-critic for one discrete action. Records "log_prob" and "value". Its noise is one uniform
// number per environment and tick, so that the same logits give the same action in every batch, and
// but for rounding on every device. Throws Error if the action is not one discrete choice.
std::unique_ptr<ActorCritic> make_categorical(const EnvSpec& spec, const ModelOptions& model,
                                              const CategoricalOptions& options,
                                              std::uint64_t seed);
// The same around a model of your own, whose policy head puts out one logit per choice.
std::unique_ptr<ActorCritic> make_categorical(const EnvSpec& spec,
                                              std::shared_ptr<ActorCriticModel> model,
                                              const CategoricalOptions& options = {});

}  // namespace shoal
