#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>

#include "shoal/core/error.h"
#include "shoal/core/spec.h"
#include "shoal/data/samples.h"

namespace shoal {

// What an agent records with every action, and what it carries from step to step; specs of one
// environment.
struct AgentSpec {
  NamedSpecs info;   // e.g. log_prob, value
  NamedSpecs state;  // recurrent state; empty for feed-forward policies
  // False: whoever learns from it asks for no values, and samplers leave those of Samples zero.
  bool values = true;
};

// Names the noise of one step: that of row i depends on (seed, env, tick) only, whoever draws it
// and in whatever batch.
struct NoiseKey {
  struct Row {
    std::int64_t env, tick;
  };
  std::uint64_t seed = 0;
  std::int64_t tick = 0;
  std::int64_t first_env = 0;      // row i is of environment first_env + i. -1: they are no such
                                   // sequence, and only valued, unless `rows` names them
  std::span<const Row> rows = {};  // if not empty, row i is rows[i], and first_env is -1
  // Where a recording of act() may be replayed for other ticks: the same rows, [N, 2] int64 on the
  // agent's device, which alone are to be read then.
  at::Tensor env_tick = {};

  Row row(std::int64_t i) const {
    return rows.empty() ? Row{first_env + i, tick} : rows[static_cast<std::size_t>(i)];
  }
};

// N environments that need an action (or a value). All tensors are on the agent's device, noise
// keys excepted. Environments that wait for the end of a rollout are among them, with zeros for
// observations; what is chosen for those is discarded.
struct ActIn {
  Observations observation;  // N observations
  NamedTensors mask = {};    // [N, n] bool, if the environment has action masks; not for value()
  NamedTensors state = {};   // [N, ...]
  NamedTensors previous_action = {};  // [N, ...]; meaningless where is_first
  at::Tensor previous_reward = {};    // [N]; likewise
  at::Tensor is_first = {};  // [N] bool: an episode starts here; the agent forgets its state
  NoiseKey noise = {};
  bool greedy = false;  // choose the most likely action; for evaluation
};

// Where the results go: tensors that already exist, often views into shared rows, to be filled in
// place.
struct ActOut {
  NamedTensors action;           // [N, ...]
  NamedTensors agent_info = {};  // [N, ...]
  NamedTensors state = {};       // [N, ...], may not alias ActIn::state
};

struct GreedyOut {
  NamedTensors action;  // [N, ...] of each part, as an environment takes it
  at::Tensor value;     // [N] float32
};

// Chooses actions for many environments at once. Lives in one process and is called by one thread.
class Agent {
 public:
  virtual ~Agent() = default;
  virtual const AgentSpec& spec() const = 0;

  // Called without gradients.
  virtual void act(const ActIn& in, ActOut& out) = 0;
  // Writes the value of each observation to value [N] float32. Does not advance the state. Called
  // without gradients.
  virtual void value(const ActIn& in, at::Tensor& value) = 0;

  // Everything a checkpoint must hold, parameters and buffers, by name. The tensors are the agent's
  // own.
  virtual NamedTensors parameters() = 0;
  // Those of them that act() depends on: what processes and threads that act are sent.
  virtual NamedTensors acting_parameters() { return parameters(); }
  // To be called after the parameters were written to: acting may use a copy in another layout or
  // precision.
  virtual void parameters_changed() {}
  // On a device, samplers may record what act() starts there, and replay that for a whole rollout
  // instead of calling it. What act() reads of the host's memory, such as how much to explore, is
  // to be brought to the device here: they call it before each rollout.
  virtual void before_rollout(bool greedy) { (void)greedy; }

  virtual void to(at::Device device) = 0;
  virtual at::Device device() const = 0;

  // The most likely actions of N observations, by tensor operations alone, none of which knows N:
  // what an export traces. mask: as in ActIn. Throws Error if the agent does not offer it.
  virtual GreedyOut greedy(const Observations& observation, const at::Tensor& mask) {
    (void)observation, (void)mask;
    throw Error("this agent cannot be exported: it does not offer greedy()");
  }
};

// What an on-policy algorithm asks about actions that were taken: N = time * sequences of them,
// time-major.
struct EvaluateIn {
  Observations observation;
  NamedTensors action, mask = {};
  NamedTensors agent_info = {};  // what act() recorded with the actions
  NamedTensors previous_action = {};
  at::Tensor previous_reward = {}, is_first = {};
  NamedTensors state =
      {};  // [sequences, ...], before the first step; empty for feed-forward policies
  // Steps of each sequence. An agent with state is told of previous_action, previous_reward and
  // first of all N, and begins anew within a sequence where `is_first` says so.
  std::int64_t time = 1;
};

struct Evaluation {
  at::Tensor log_prob, entropy, value;  // [N] float32, with gradients
};

// An agent with a stochastic policy and a value function.
class ActorCritic : public Agent {
 public:
  virtual Evaluation evaluate(const EvaluateIn& in) = 0;
  // The parameters to learn, in a fixed order.
  virtual std::vector<at::Tensor> learnable() = 0;
  // Takes a rollout into account that was learned from, e.g. in statistics of observations. To be
  // called after learning, so that until then actions have the probability they were chosen with,
  // and before parameters_changed().
  void observe(const Samples& samples) { add_statistics(statistics(samples)); }
  // The two halves of that, of which several processes with rollouts of their own do the first
  // each, and the second with what all of them found: numbers by name, float64. Those of no rollout
  // at all change nothing.
  virtual NamedTensors statistics(const Samples&) { return {}; }
  virtual void add_statistics(const NamedTensors&) {}
};

}  // namespace shoal
