#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>

#include "shoal/core/error.h"
#include "shoal/core/spec.h"
#include "shoal/data/samples.h"

namespace shoal {

// Specs, for one environment, of the tensors an agent records with every action and of its state.
struct AgentSpec {
  NamedSpecs info;   // e.g. log_prob, value
  NamedSpecs state;  // recurrent state; empty for feed-forward policies
  // False: the algorithm needs no value estimates, and samplers leave those of Samples zero.
  bool values = true;
};

// Identifies the noise of one step. The noise of row i depends on (seed, env, tick) only, not on
// the batch or the process that draws it.
struct NoiseKey {
  struct Row {
    std::int64_t env, tick;
  };
  std::uint64_t seed = 0;
  std::int64_t tick = 0;
  std::int64_t first_env = 0;      // row i belongs to environment first_env + i. -1: the rows are
                                   // named by `rows`; without it they may only be passed to value()
  std::span<const Row> rows = {};  // if not empty, row i is rows[i], and first_env is -1
  // Set where a captured graph of act() may be replayed for other ticks: the same rows as [N, 2]
  // int64 on the agent's device. act() then reads only this.
  at::Tensor env_tick = {};

  Row row(std::int64_t i) const {
    return rows.empty() ? Row{first_env + i, tick} : rows[static_cast<std::size_t>(i)];
  }
};

// N environments that need an action (or a value). All tensors are on the agent's device, except
// noise keys. Environments that wait for the end of a rollout are included, with zero observations;
// their actions are discarded.
struct ActIn {
  Observations observation;  // N observations
  NamedTensors mask = {};    // [N, n] bool, if the environment has action masks; unused by value()
  NamedTensors state = {};   // [N, ...]
  NamedTensors previous_action = {};  // [N, ...]; meaningless where is_first
  at::Tensor previous_reward = {};    // [N]; meaningless where is_first
  at::Tensor is_first = {};  // [N] bool: an episode starts here; the agent resets its state
  NoiseKey noise = {};
  bool greedy = false;  // choose the most likely action; for evaluation
};

// Output tensors, allocated by the caller and filled in place; often views of a shared rollout.
struct ActOut {
  NamedTensors action;           // [N, ...]
  NamedTensors agent_info = {};  // [N, ...]
  NamedTensors state = {};       // [N, ...], may not alias ActIn::state
};

// The outputs of a policy for N observations. Components of an action have their names as in the
// environment; the tensors of the distribution and the state have one before a slash, unless it is
// empty.
struct PolicyOut {
  NamedTensors action;  // the most likely one, [N, ...] as an environment takes it
  at::Tensor value;     // [N] float32
  // "logits" of choices, masked, or "mean" and "std" of a Gaussian, in half-widths of the bounds
  // and before the bounds apply; "values" of the actions of a Q-agent.
  NamedTensors distribution = {};
  NamedTensors sample = {};  // an action that is drawn, like `action`; empty without noise
  at::Tensor log_prob = {};  // [N], of the sample
  NamedTensors state = {};   // [N, ...] after the observation
};

// Chooses actions for a batch of environments. Used by one process and one thread.
class Agent {
 public:
  virtual ~Agent() = default;
  virtual const AgentSpec& spec() const = 0;

  // Called without gradients.
  virtual void act(const ActIn& in, ActOut& out) = 0;
  // Writes the value of each observation to value [N] float32. Does not advance the state. Called
  // without gradients.
  virtual void value(const ActIn& in, at::Tensor& value) = 0;

  // Parameters and buffers for checkpoints, by name. The tensors are the agent's own, not copies.
  virtual NamedTensors parameters() = 0;
  // The subset that act() depends on; it is sent to the processes and threads that act.
  virtual NamedTensors acting_parameters() { return parameters(); }
  // Call after writing to the parameters: acting may use a copy in another layout or precision.
  virtual void parameters_changed() {}
  // On a GPU, samplers may capture act() in a graph and replay it for a whole rollout. They call
  // this before each rollout of an agent that is not on the CPU; it must copy to the device all
  // host data that act() reads, such as epsilon.
  virtual void before_rollout(bool greedy) { (void)greedy; }

  // Whether act() gives a row the same numbers, bit for bit, whatever the other rows of its batch
  // are. Samplers of any kind then make the same samples.
  virtual bool rows_are_independent() const { return false; }

  virtual void to(at::Device device) = 0;
  virtual at::Device device() const = 0;

  // The policy for N observations, for exports, which trace it: it uses tensor operations only, and
  // none depends on the value of N or of a tensor. noise: [N, policy_noise()], uniform in [0, 1),
  // or undefined for no sample. Throws Error if not supported.
  virtual PolicyOut policy_outputs(const ActIn& in, const at::Tensor& noise) {
    (void)in, (void)noise;
    throw Error("this agent cannot be exported: it does not offer policy_outputs()");
  }
  // The tensors that policy_outputs() computes with, by name. Exports keep them under these names.
  virtual NamedTensors policy_parameters() { return parameters(); }
  // 0: the agent draws no actions from a distribution.
  virtual std::int64_t policy_noise() const { return 0; }
};

// Input of ActorCritic::evaluate(): N = time * sequences actions that were taken, time-major.
struct EvaluateIn {
  Observations observation;
  NamedTensors action, mask = {};
  NamedTensors agent_info = {};  // as recorded by act() with the actions
  NamedTensors previous_action = {};
  at::Tensor previous_reward = {}, is_first = {};
  NamedTensors state =
      {};  // [sequences, ...], before the first step; empty for feed-forward policies
  // Steps of each sequence. An agent with state needs previous_action, previous_reward and is_first
  // of all N, and resets its state within a sequence where `is_first` is true.
  std::int64_t time = 1;
};

struct Evaluation {
  at::Tensor log_prob, entropy, value;  // [N] float32, with gradients
};

// An agent with a stochastic policy and a value function.
class ActorCritic : public Agent {
 public:
  virtual Evaluation evaluate(const EvaluateIn& in) = 0;
  // The trainable parameters, in a fixed order.
  virtual std::vector<at::Tensor> learnable() = 0;
  // Adds a rollout to the observation statistics. Call it after learning from the rollout, so that
  // actions are evaluated with the statistics they were chosen with, and before
  // parameters_changed().
  void observe(const Samples& samples) { add_statistics(statistics(samples)); }
  // The two halves of observe(), for several processes with a rollout each: every process computes
  // statistics() of its own rollout, and passes those of all processes, in the same order, to
  // add_statistics(). Float64 tensors, by name. Those of Samples without a valid step change
  // nothing.
  virtual NamedTensors statistics(const Samples&) { return {}; }
  virtual void add_statistics(const NamedTensors&) {}
};

}  // namespace shoal
