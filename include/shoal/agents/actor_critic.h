#pragma once

#include <cstdint>
#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

struct ActorCriticOptions {
  // Arithmetic of acting with the Nature CNN on the CPU; other models act in float32. The recorded
  // log-probability and value are those of the arithmetic that acted, so it is the true behaviour
  // policy; learning stays in float32.
  Precision act_precision = Precision::kFloat32;

  // Bring every observed real number to mean 0 and deviation 1, as seen in training so far, and cut
  // it at 10 deviations; images stay as they are. Algorithms update the statistics with every
  // rollout, after learning from it (ActorCritic::observe).
  bool normalize_observation = false;

  // Of actions that are real numbers. Deviations are in half-widths of the action's bounds, so that
  // one setting fits every environment; without bounds they are in the action's own unit.
  double initial_std = 1;    // deviation of the Gaussian before learning
  bool network_std = false;  // the network puts out deviations, too; else they are parameters
  bool squash = false;       // keep actions within their bounds by tanh, instead of cutting them
};

// An actor-critic for any kind of action, or several named ones. Records "log_prob" (of all parts
// together) and "value".
//
// Discrete choices, several at once, and bits are drawn from categorical distributions. Real
// numbers are drawn from independent Gaussians; what was drawn is recorded as "raw" ("NAME/raw" for
// a named part), before it is brought within the bounds, and it is what log_prob is of.
//
// A model with state (ActorCriticModel::state()) makes it an agent with the same state.
//
// Its noise is a few uniform numbers per environment and tick, so that the same outputs of the
// network give the same action in every batch, and but for rounding on every device. Throws Error
// for options that the action cannot have.
std::unique_ptr<ActorCritic> make_actor_critic(const EnvSpec& spec, const ModelOptions& model,
                                               const ActorCriticOptions& options,
                                               std::uint64_t seed);
// The same around a model of your own, whose policy head puts out policy_size() numbers.
std::unique_ptr<ActorCritic> make_actor_critic(const EnvSpec& spec,
                                               std::shared_ptr<ActorCriticModel> model,
                                               const ActorCriticOptions& options = {});

// Numbers the policy head puts out for one observation, part after part: one for each choice, two
// for each bit, and for each real number its mean, followed, if `network_std`, by the logarithms of
// the deviations.
std::int64_t policy_size(const EnvSpec& spec, const ActorCriticOptions& options = {});

}  // namespace shoal
