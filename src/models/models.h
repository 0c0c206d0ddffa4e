#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "shoal/models/actor_critic.h"

namespace shoal {

std::shared_ptr<ActorCriticModel> make_mlp(const NamedSpecs& observation, std::int64_t policy_size,
                                           const ModelOptions& options, at::Generator generator);
std::shared_ptr<ActorCriticModel> make_nature_cnn(const NamedSpecs& observation,
                                                  std::int64_t policy_size,
                                                  const ModelOptions& options,
                                                  at::Generator generator);
std::shared_ptr<ActorCriticModel> make_multi_input(const NamedSpecs& observation,
                                                   std::int64_t policy_size,
                                                   const ModelOptions& options,
                                                   at::Generator generator);

// The layers of mlp, nature-cnn or multi-input, a recurrent cell, and the heads. Throws Error for
// other models.
std::shared_ptr<ActorCriticModel> make_recurrent(const NamedSpecs& observation,
                                                 std::int64_t policy_size,
                                                 const ModelOptions& options,
                                                 const Named<ActionSpec>& action,
                                                 at::Generator generator);

}  // namespace shoal
