#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/core/spec.h"
#include "shoal/data/samples.h"
#include "shoal/models/acting_network.h"
#include "shoal/models/model_options.h"

namespace shoal {

// N = time * sequences observations, time-major. Feed-forward models read the observations alone.
struct ModelIn {
  Observations observation;
  NamedTensors state;  // [sequences, ...] before the first step
  at::Tensor
      is_first;  // [N] bool: an episode starts here; previous state, action and reward read as 0
  std::int64_t time = 1;
  NamedTensors previous_action = {};  // [N, ...]; meaningless where is_first
  at::Tensor previous_reward = {};    // [N] float32; meaningless where is_first
};

struct ModelOut {
  at::Tensor policy;   // [N, policy_size]: parameters of the action distribution, e.g. logits
  at::Tensor value;    // [N]
  NamedTensors state;  // [sequences, ...] after the last step
};

// A network with a policy head and a value head. Parameters are registered by name, as torch
// modules do.
class ActorCriticModel : public torch::nn::Module {
 public:
  // Called in evaluation mode where no gradients are recorded.
  virtual ModelOut forward(const ModelIn& in) = 0;

  // Specs of the recurrent state of one sequence, which is all zeros where an episode starts; empty
  // for feed-forward models.
  virtual NamedSpecs state() const { return {}; }

  // A copy for acting, without gradients, in the fastest layout and precision for this CPU. The
  // model must outlive it. Null: use forward().
  virtual std::unique_ptr<ActingNetwork> make_acting_network(Precision) const { return nullptr; }
  // The same for models with state, for which make_acting_network() is not called.
  virtual std::unique_ptr<RecurrentActing> make_recurrent_acting() const { return nullptr; }
};

// policy_size: outputs of the policy head for one observation. Parameters are initialised from
// `seed`. action: the previous action that a recurrent cell reads. Throws Error for an unknown name
// and for observations that the model does not support.
std::shared_ptr<ActorCriticModel> make_model(const NamedSpecs& observation,
                                             std::int64_t policy_size, const ModelOptions& options,
                                             std::uint64_t seed,
                                             const Named<ActionSpec>& action = {});

// Registers a model under a name. torch's global generator is seeded before the factory runs, so
// initial parameters depend on the seed only. Throws Error if the name is taken.
using ModelFactory = std::function<std::shared_ptr<ActorCriticModel>(
    const NamedSpecs& observation, std::int64_t policy_size, const ModelOptions& options)>;
void register_model(const std::string& name, ModelFactory make);

}  // namespace shoal
