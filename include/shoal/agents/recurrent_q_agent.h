#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/models/model_options.h"

namespace shoal {

class ActorCriticModel;  // shoal/models/actor_critic.h
struct ModelIn;          // shoal/models/actor_critic.h

struct RecurrentQAgentOptions {
  // See QAgentOptions.
  bool dueling = true;
  std::int64_t epsilons = 1;
};

// The output of a recurrent network for sequences.
struct SequenceValues {
  at::Tensor values;   // [time * sequences, actions] float32, time-major
  NamedTensors state;  // [sequences, ...] after the last step, without gradients
};

// A Q-learning agent with recurrent networks. Its state is that of the online network.
class RecurrentQAgent : public Agent {
 public:
  // values() has gradients; target_values() uses the target network and has none.
  virtual SequenceValues values(const ModelIn& in) = 0;
  virtual SequenceValues target_values(const ModelIn& in) = 0;
  // Moves the target network by this fraction towards the online network: 1 makes it a copy.
  virtual void update_target(double share) = 0;

  // The trainable parameters, in a fixed order, and the gradient of a loss [] for each of them.
  virtual std::vector<at::Tensor> learnable() = 0;
  virtual std::vector<at::Tensor> gradients(const at::Tensor& loss) = 0;

  // See QAgent::epsilon().
  virtual at::Tensor epsilon() = 0;
};

// For one discrete action, with or without a mask. The network is a recurrent actor-critic model:
// its policy head outputs the action values, or, if dueling, advantages. Throws Error for other
// actions, and for models without state.
std::unique_ptr<RecurrentQAgent> make_recurrent_q_agent(const EnvSpec& spec,
                                                        const ModelOptions& model,
                                                        const RecurrentQAgentOptions& options,
                                                        std::uint64_t seed);
// The same with two given models of one kind; the second one becomes a copy of the first.
std::unique_ptr<RecurrentQAgent> make_recurrent_q_agent(const EnvSpec& spec,
                                                        std::shared_ptr<ActorCriticModel> model,
                                                        std::shared_ptr<ActorCriticModel> target,
                                                        const RecurrentQAgentOptions& options = {});

}  // namespace shoal
