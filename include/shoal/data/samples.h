#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/spec.h"

namespace shoal {

using NamedTensors = Named<at::Tensor>;

at::ScalarType torch_dtype(DType dtype);

// A tensor [lead..., shape...] over a field of the arena. Copies nothing; keeps the mapping alive.
at::Tensor view(const Arena& arena, const Arena::Field& field);

// N observations of one field, by reference.
struct Observed {
  at::Tensor
      data;  // stack == 1: [N, ...]. stack > 1: the stored frames [M, ...], each of them once.
  at::Tensor index;  // stack > 1: [N, stack] int64, which frames make observation n, oldest first;
                     // -1 is a blank (zeros).

  bool stacked() const { return index.defined(); }
  std::int64_t size() const { return stacked() ? index.size(0) : data.size(0); }
  Observed select(const at::Tensor& rows) const;  // rows: [N'] int64
  Observed narrow(std::int64_t from, std::int64_t n) const;
  Observed to(at::Device device) const;
  // The observations themselves: [N, ...], or [N, stack, ...] for stacked ones; same dtype as the
  // data. pinned: those on the CPU in memory that a GPU copies from while the caller goes on.
  at::Tensor dense(bool pinned = false) const;
};

using Observations = Named<Observed>;

Observations select(const Observations& observations, const at::Tensor& rows);
NamedTensors select(const NamedTensors& tensors, const at::Tensor& rows);

// The last observations of the episodes that ended inside a rollout, which the next row no longer
// holds (it holds the first observation of the next episode). K entries, ordered by (t, b).
struct FinalObservations {
  std::vector<std::int64_t> t, b;
  Observations observation;  // K observations
  // [K, n] bool, beside the observations, if there are action masks. All legal where the
  // environment allowed nothing.
  NamedTensors mask = {};
  NamedTensors state;  // [K, ...], the agent's state of that moment
  at::Tensor value;    // [K] float32: the agent's value where truncated, 0 where terminated

  std::int64_t size() const { return static_cast<std::int64_t>(t.size()); }
};

// A rollout of T steps of B environments. Axes are always [T, B, ...].
struct Samples {
  std::int64_t T = 0, B = 0;
  std::int64_t steps = 0;  // that are valid: T * B, unless environments wait
  // What the first of these environments is among all of the sampler, the others following: 0,
  // unless a rollout is that of one worker (make_async_sampler()).
  std::int64_t first_env = 0;

  NamedTensors observation;  // [T+1, B, ...]; of a stacked field the newest frame only
  Observations
      observed;         // the same observations complete, N = (T+1) * B, time-major: n = t * B + b
  NamedTensors action;  // [T, B, ...]
  NamedTensors mask;    // [T+1, B, n] bool, true = legal; empty without action masks
  NamedTensors agent_info;     // [T, B, ...], what the agent recorded when it acted
  NamedTensors env_info;       // [T, B, ...]
  NamedTensors initial_state;  // [B, ...], the agent's recurrent state before step 0

  at::Tensor reward;      // [T, B] float32
  at::Tensor terminated;  // [T, B] bool
  at::Tensor truncated;   // [T, B] bool
  // [T, B] bool: false where the environment waited for the end of the rollout, see
  // SamplerOptions::mid_batch_reset.
  // Such steps hold zeros, all actions legal, and are nothing to learn from. True otherwise, but
  // where a worker was started anew (OnDeath::kRestart): of the step it died in, nothing but the
  // observation is known, which the episode is cut off with (`truncated`, and no final_value); from
  // there on its environments wait. And where a rollout was cut short
  // (SamplerOptions::preempt_share): the episode goes on in the next rollout, and the last step
  // that was taken is `truncated` here, with the value of what followed it as final_value.
  at::Tensor valid;
  at::Tensor is_first;  // [T+1, B] bool: this observation starts an episode (for the agent: also
                        // after a lost life)

  at::Tensor previous_reward;    // [T+1, B] float32: shifted view; meaningless where `is_first`
  NamedTensors previous_action;  // [T+1, B, ...]: likewise

  at::Tensor bootstrap_value;  // [B] float32: the agent's value of row T; 0 where it is not valid,
                               // and here and below if nobody asks for values (AgentSpec::values)
  at::Tensor final_value;  // [T, B] float32: FinalObservations::value, dense; 0 where nothing was
                           // truncated
  FinalObservations final_obs;

  std::int64_t first_tick = 0;      // rows before row 0, in all rollouts before this one
  std::int64_t policy_version = 0;  // rollouts collected before this one

  Samples to(at::Device device) const;
};

// An episode that ended inside a rollout.
struct Episode {
  std::int64_t env = 0;     // b
  std::int64_t number = 0;  // 0 for the first episode of its environment
  std::int64_t length = 0;  // steps
  std::int64_t nonzero_rewards = 0;
  double reward = 0;             // sum of the rewards as the agent saw them
  double discounted_reward = 0;  // likewise, discounted by SamplerOptions::discount
  double score = 0;  // sum of the raw rewards (the info "score" of the environment, if it has one)
  // The other infos that have a reduction (InfoSpec::reduce), reduced; named by Batch::infos.
  std::vector<double> info = {};
};

}  // namespace shoal
