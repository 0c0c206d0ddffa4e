#pragma once

#include <cstdint>
#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/models/model_options.h"

namespace shoal {

class ActorCriticModel;  // shoal/models/actor_critic.h

struct ActorCriticOptions {
  // Precision of acting with the Nature CNN on the CPU; other models act in float32. The recorded
  // log-probability and value are computed in the same precision, so they describe the true
  // behaviour policy. With kBf16, the weights of all layers but the heads are rounded and, on a CPU
  // with AMX, the inputs of these layers, too. ModelOptions::precision is that of learning.
  Precision act_precision = Precision::kFloat32;

  // Normalize numbers (real, int32, and int64 that is not one-hot) and vectors of bytes to mean 0
  // and standard deviation 1 by running statistics, and clip them at 10 deviations; pictures of
  // bytes, flags and one-hot numbers stay as they are. Algorithms update the statistics with every
  // rollout, after learning from it (ActorCritic::observe).
  bool normalize_observation = false;

  // Continuous actions. Standard deviations are in half-widths of the action's bounds, so that one
  // setting fits every environment; without bounds they are in the action's own unit.
  double initial_std = 1;    // standard deviation of the Gaussian before learning
  bool network_std = false;  // the network outputs the deviations; otherwise they are parameters
  bool squash = false;       // keep actions within their bounds by tanh instead of clipping
};

// An actor-critic for any kind of action, or several named ones. Its agent_info is "log_prob" (of
// all action components together) and "value".
//
// Discrete, multi-discrete and binary actions are drawn from categorical distributions. Continuous
// actions are drawn from independent Gaussians; the draw before it is brought within the bounds is
// recorded as "raw" ("NAME/raw" for a named component), and log_prob is its density or, with
// `squash`, that of its tanh.
//
// The agent's state is that of the model (ActorCriticModel::state()).
//
// The noise is a few uniform numbers per environment and tick, so the same network outputs give the
// same action in every batch and, up to rounding, on every device. Throws Error for options that
// contradict the bounds of the action.
std::unique_ptr<ActorCritic> make_actor_critic(const EnvSpec& spec, const ModelOptions& model,
                                               const ActorCriticOptions& options,
                                               std::uint64_t seed);
// The same with a given model, whose policy head must have policy_size() outputs: acting and
// learning throw Error otherwise.
std::unique_ptr<ActorCritic> make_actor_critic(const EnvSpec& spec,
                                               std::shared_ptr<ActorCriticModel> model,
                                               const ActorCriticOptions& options = {});

// Outputs of the policy head for one observation, component after component: one for each choice,
// two for each bit, and for each real number its mean; if `network_std`, log(std / initial_std)
// follows the means, and log(std) is clamped to [-5, 2].
std::int64_t policy_size(const EnvSpec& spec, const ActorCriticOptions& options = {});

}  // namespace shoal
