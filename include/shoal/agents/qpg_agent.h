#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/models/flat_mlp.h"

namespace shoal {

struct QpgAgentOptions {
  // The policy puts out a Gaussian, which is drawn from and then brought within the bounds by tanh
  // (SAC): of each number its mean, and the logarithm of its deviation, cut at -20 and 2. Otherwise
  // it puts out an action, likewise through tanh, to which noise is added (DDPG, TD3).
  bool stochastic = true;
  int critics = 2;                                // values that are learned side by side
  std::vector<std::int64_t> hidden = {256, 256};  // units of each hidden layer, of all networks
};

// Acts for continuous control: one action of real numbers between bounds. All networks are MLPs
// with ReLU; an observation is all its fields side by side, as the mlp of make_model() has it.
// Everywhere in here and in the algorithms actions are in half-widths of their bounds, from -1 to
// 1, so that one setting fits every environment; act() gives them in the environment's own unit.
// Records nothing.
//
// Its noise is keyed: that of an environment's step is the same in every batch and sampler. A row's
// action on the CPU does not depend on the other rows.
class QpgAgent : public Agent {
 public:
  // The tensors are the agent's own, on its device. Targets are copies at first.
  struct Networks {
    FlatMlp policy_mlp, critic_mlp;  // a critic takes an observation and an action, side by side
    at::Tensor policy;               // [policy_mlp.size()]
    at::Tensor target_policy;  // likewise; undefined for a stochastic policy, which needs none
    at::Tensor critics, target_critics;  // [critics, critic_mlp.size()]
  };
  virtual const Networks& networks() const = 0;
  virtual bool stochastic() const = 0;
  virtual std::int64_t dims() const = 0;  // numbers of an action

  // What networks take: [N, policy_mlp.in()] float32, on the observation's device.
  virtual at::Tensor input(const Observations& observation) const = 0;
  // The action [N, dims] in half-widths of its bounds is (action - middle()) / half_width().
  virtual double middle() const = 0;
  virtual double half_width() const = 0;

  // [2] float32, on the CPU: the probability of an action that is uniform within the bounds;
  // and the deviation of the noise that is added otherwise, in half-widths. (That of a
  // stochastic policy is multiplied by it.) Both are 1 at first. Set it between two rollouts:
  // workers get it together with the parameters. Greedily neither counts.
  virtual at::Tensor exploration() = 0;
};

// Throws Error unless the environment has one action of real numbers with finite bounds, and for
// options that make no sense. Parameters are initialised from `seed`.
std::unique_ptr<QpgAgent> make_qpg_agent(const EnvSpec& spec, const QpgAgentOptions& options,
                                         std::uint64_t seed);

}  // namespace shoal
