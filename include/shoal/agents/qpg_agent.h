#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/models/actor_critic.h"
#include "shoal/models/flat_mlp.h"

namespace shoal {

struct QpgAgentOptions {
  // True (SAC): the policy is a Gaussian whose draws tanh brings within the bounds. It puts out the
  // mean of each number and the logarithm of its deviation, clamped to [-20, 2]. False (DDPG, TD3):
  // it puts out an action before tanh; exploration adds noise after it and clips.
  bool stochastic = true;
  int critics = 2;                                // values that are learned side by side
  std::vector<std::int64_t> hidden = {256, 256};  // units of each hidden layer of every MLP
};

// Acts for continuous control: one action of real numbers between bounds. Here and in the
// algorithms actions are in half-widths of their bounds, from -1 to 1, so that one setting fits
// every environment; act() writes them in the environment's own unit. Records nothing.
//
// The noise is keyed: that of an environment's step is the same in every batch and sampler. On the
// CPU, a row's action does not depend on the other rows if the policy is an MLP or its model has an
// acting network.
class QpgAgent : public Agent {
 public:
  // The tensors are the agent's own, on its device; they are valid until to() is called. Targets
  // are copies at first.
  struct Networks {
    // The shapes of MLPs. With another model policy_mlp has no layers, and critic_mlp is the head
    // of a critic, which reads the features of the observation and the action.
    FlatMlp policy_mlp, critic_mlp;
    at::Tensor policy;                   // the parameters, e.g. [policy_mlp.size()]
    at::Tensor target_policy;            // like policy; undefined if the policy is stochastic
    at::Tensor critics, target_critics;  // the parameters, e.g. [critics, critic_mlp.size()]
    bool are_mlps() const { return !policy_mlp.widths.empty(); }
  };
  virtual const Networks& networks() const = 0;
  virtual bool stochastic() const = 0;
  virtual std::int64_t dims() const = 0;  // numbers of an action

  // The observations as the networks read them, on the same device: for MLPs one field
  // [N, policy_mlp.in()] float32, otherwise the observations themselves.
  virtual Observations input(const Observations& observation) const = 0;
  // The action [N, dims] in half-widths of its bounds is (action - middle()) / half_width().
  virtual double middle() const = 0;
  virtual double half_width() const = 0;

  // Learning by tensor operations; input: of input(). The policy's output is [N, dims], or
  // [N, 2 dims] with the logarithms of the deviations behind the means. Values are [critics, N];
  // actions are in half-widths. The results have gradients unless `target`.
  virtual at::Tensor policy(const Observations& input, bool target = false) = 0;
  virtual at::Tensor values(const Observations& input, const at::Tensor& action,
                            bool target = false) = 0;
  // Gradients of a loss [], like Networks::policy and Networks::critics.
  virtual at::Tensor policy_gradient(const at::Tensor& loss) = 0;
  virtual at::Tensor critics_gradient(const at::Tensor& loss) = 0;
  // Moves the targets towards the networks by a fraction, [] float32 on the agent's device.
  virtual void move_targets(const at::Tensor& fraction) = 0;

  // [2] float32, on the CPU: the probability of an action that is uniform within the bounds, and
  // the deviation of the noise otherwise, in half-widths; the deviation of a stochastic policy is
  // multiplied by it. Both are 1 at first. Set it between two rollouts: workers get it together
  // with the parameters. Greedy actions ignore both.
  virtual at::Tensor exploration() = 0;
};

// An agent whose networks are MLPs with ReLU. They read all fields of an observation side by side,
// as the mlp of make_model() does. Parameters are initialised from `seed`. Throws Error unless the
// environment has one action of real numbers with finite bounds, and for options that make no
// sense.
std::unique_ptr<QpgAgent> make_qpg_agent(const EnvSpec& spec, const QpgAgentOptions& options,
                                         std::uint64_t seed);

// The same with any model that make_model() knows. With "mlp" it is the agent above, with the
// hidden layers of `model`. Otherwise policy and critics read observations by networks of their
// own: the policy is such a model, and the critics share one that puts out 50 features. Layer
// normalization and tanh follow (Yarats et al., arXiv 1910.01741), and an MLP for each critic reads
// them beside the action, with the hidden layers of `model`. Throws Error for recurrent models,
// too.
std::unique_ptr<QpgAgent> make_qpg_agent(const EnvSpec& spec, const ModelOptions& model,
                                         const QpgAgentOptions& options, std::uint64_t seed);

}  // namespace shoal
