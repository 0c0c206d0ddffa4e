#pragma once

#include <cstdint>
#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

struct CategoricalOptions {
  // Arithmetic of acting on the CPU. The recorded log-probability and value are those of the
  // arithmetic that acted, so bf16 is the true behaviour policy; learning stays in float32.
  Precision act_precision = Precision::kFloat32;
};

// An actor-critic for one discrete action. Records "log_prob" and "value". Its noise is one uniform
// number per environment and tick, so the same logits give the same action on every device and in
// every batch. Throws Error if the action is not one discrete choice.
std::unique_ptr<ActorCritic> make_categorical(const EnvSpec& spec, const ModelOptions& model,
                                              const CategoricalOptions& options,
                                              std::uint64_t seed);
// The same around a model of your own, whose policy head puts out one logit per choice.
std::unique_ptr<ActorCritic> make_categorical(const EnvSpec& spec,
                                              std::shared_ptr<ActorCriticModel> model,
                                              const CategoricalOptions& options = {});

}  // namespace shoal
