#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

struct RecurrentQAgentOptions {
  // As QAgentOptions has them.
  bool dueling = true;
  std::int64_t epsilons = 1;
};

// What a network says of sequences.
struct SequenceValues {
  at::Tensor values;   // [time * sequences, actions] float32, time-major
  NamedTensors state;  // [sequences, ...] after the last step, without gradients
};

// A QAgent whose networks remember; the agent carries the state of the one that acts.
class RecurrentQAgent : public Agent {
 public:
  // With gradients, and by the target network, without.
  virtual SequenceValues values(const ModelIn& in) = 0;
  virtual SequenceValues target_values(const ModelIn& in) = 0;
  // Moves the target network this far towards the other one: 1 makes it a copy.
  virtual void update_target(double share) = 0;

  // The parameters to learn, in a fixed order, and the gradient of a loss [] for each of them.
  virtual std::vector<at::Tensor> learnable() = 0;
  virtual std::vector<at::Tensor> gradients(const at::Tensor& loss) = 0;

  // As QAgent::epsilon().
  virtual at::Tensor epsilon() = 0;
};

// For one discrete action, with or without a mask. The network is an actor-critic's with a memory:
// what that calls the policy are the actions' values, or their advantages. Throws Error for other
// actions, and models without state.
std::unique_ptr<RecurrentQAgent> make_recurrent_q_agent(const EnvSpec& spec,
                                                        const ModelOptions& model,
                                                        const RecurrentQAgentOptions& options,
                                                        std::uint64_t seed);
// The same around two models of your own of one kind; the second one becomes a copy of the first.
std::unique_ptr<RecurrentQAgent> make_recurrent_q_agent(const EnvSpec& spec,
                                                        std::shared_ptr<ActorCriticModel> model,
                                                        std::shared_ptr<ActorCriticModel> target,
                                                        const RecurrentQAgentOptions& options = {});

}  // namespace shoal
