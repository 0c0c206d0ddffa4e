#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

struct QAgentOptions {
  // The value of an action is that of the observation, plus the action's advantage over the mean of
  // all (Wang et al., arXiv 1511.06581). Otherwise the network tells the values at once.
  bool dueling = false;
  // How many epsilons there are: one for all environments, or one for each of them; for fewer than
  // act, acting throws Error.
  std::int64_t epsilons = 1;
};

// Takes the action of the highest value, but with probability epsilon any of those that are legal;
// greedily always the first. Holds the target network, too, which is a copy of the other one as it
// was some updates before (Mnih et al., 2015). Records nothing.
class QAgent : public Agent {
 public:
  // The value of each action, [N, actions] float32: with gradients, and by the target network,
  // without.
  virtual at::Tensor values(const Observations& observation) = 0;
  virtual at::Tensor target_values(const Observations& observation) = 0;
  // Moves the target network this far towards the other one: 1 makes it a copy.
  virtual void update_target(double share) = 0;

  // The parameters to learn, in a fixed order.
  virtual std::vector<at::Tensor> learnable() = 0;

  // [epsilons] float32, on the CPU; 1 at first. Set it between two windows: workers get it together
  // with the parameters.
  virtual at::Tensor epsilon() = 0;
};

// For one discrete action, with or without a mask. The network is an actor-critic's: what that
// calls the policy is the actions' values, or their advantages. Throws Error for other actions.
std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, const ModelOptions& model,
                                     const QAgentOptions& options, std::uint64_t seed);
// The same around two models of your own of one kind; the second one becomes a copy of the first.
std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, std::shared_ptr<ActorCriticModel> model,
                                     std::shared_ptr<ActorCriticModel> target,
                                     const QAgentOptions& options = {});

}  // namespace shoal
