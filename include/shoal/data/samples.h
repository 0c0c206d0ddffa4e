#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/spec.h"

namespace shoal {

using NamedTensors = Named<at::Tensor>;

at::ScalarType torch_dtype(DType dtype);

// A tensor [lead..., shape...] that views a field of the arena; it keeps the mapping alive.
at::Tensor view(const Arena& arena, const Arena::Field& field);

// N observations of one field, by reference.
struct Observed {
  at::Tensor data;   // stack == 1: [N, ...]. stack > 1: the stored frames [M, ...], each once
  at::Tensor index;  // stack > 1: [N, stack] int64, the frames of observation n, oldest first; -1
                     // is a blank frame (zeros)

  bool stacked() const { return index.defined(); }
  std::int64_t size() const { return stacked() ? index.size(0) : data.size(0); }
  Observed select(const at::Tensor& rows) const;  // rows: [N'] int64
  Observed narrow(std::int64_t from, std::int64_t n) const;
  Observed to(at::Device device) const;
  // The materialised observations: [N, ...], or [N, stack, ...] if stacked; same dtype as `data`.
  // pinned: CPU results are in pinned memory, so that a copy to the GPU can be asynchronous.
  at::Tensor dense(bool pinned = false) const;
};

using Observations = Named<Observed>;

Observations select(const Observations& observations, const at::Tensor& rows);
NamedTensors select(const NamedTensors& tensors, const at::Tensor& rows);

// The final observations of episodes that ended inside a rollout (Gymnasium's final_observation);
// the next row holds the first observation of the next episode instead. K entries, ordered by (t,
// b).
struct FinalObservations {
  std::vector<std::int64_t> t, b;
  Observations observation;  // K observations
  // [K, n] bool, with action masks only. All true where the environment allowed no action.
  NamedTensors mask = {};
  NamedTensors state;  // [K, ...], the agent's state at that step
  at::Tensor value;    // [K] float32: the agent's value if truncated, 0 if terminated

  std::int64_t size() const { return static_cast<std::int64_t>(t.size()); }
};

// A rollout of T steps of B environments. Axes are always [T, B, ...].
struct Samples {
  std::int64_t T = 0, B = 0;
  std::int64_t steps = 0;  // valid steps: T * B, unless environments wait
  // The sampler's index of this rollout's environment 0: 0, unless the rollout is from one worker
  // (make_async_sampler()).
  std::int64_t first_env = 0;

  NamedTensors observation;  // [T+1, B, ...]; only the newest frame of a stacked field
  Observations observed;     // the same observations with their stacks, N = (T+1) * B, time-major:
                             // n = t * B + b
  NamedTensors action;       // [T, B, ...]
  NamedTensors mask;         // [T+1, B, n] bool, true = legal; empty without action masks
  NamedTensors agent_info;   // [T, B, ...], recorded by the agent when it acted
  NamedTensors env_info;     // [T, B, ...]
  NamedTensors initial_state;  // [B, ...], the agent's recurrent state before step 0

  at::Tensor reward;      // [T, B] float32
  at::Tensor terminated;  // [T, B] bool
  at::Tensor truncated;   // [T, B] bool
  // [T, B] bool: false where the environment waited for the end of the rollout
  // (SamplerOptions::mid_batch_reset). Such steps hold zeros and all-legal masks, and are excluded
  // from learning. There are three other cases. An environment of a batch may need a step to begin
  // an episode (BatchTraits::waits); `is_first` is true in that row, too. If a worker was restarted
  // (OnDeath::kRestart), only the observation of the step it died in is known: the episode is
  // `truncated` there without a final_value, and its environments wait from then on. If a rollout
  // was cut short (SamplerOptions::preempt_share), the episode continues in the next rollout: the
  // last step taken is `truncated` here, and its final_value is the value of the following
  // observation.
  at::Tensor valid;
  at::Tensor is_first;  // [T+1, B] bool: this observation starts an episode (for the agent also
                        // after a lost life)

  at::Tensor previous_reward;    // [T+1, B] float32: shifted view; meaningless where `is_first`
  NamedTensors previous_action;  // [T+1, B, ...]: shifted view; meaningless where `is_first`

  at::Tensor bootstrap_value;  // [B] float32: the agent's value of row T; 0 where row T is not
                               // valid, and, as final_value, if AgentSpec::values is false
  at::Tensor final_value;  // [T, B] float32: FinalObservations::value, dense; 0 where not truncated
  FinalObservations final_obs;

  // Rows of earlier rollouts, and rollouts collected before this one. Asynchronous: rows of the
  // writer's earlier rollouts, and rollouts collected before its policy was published.
  std::int64_t first_tick = 0, policy_version = 0;

  Samples to(at::Device device) const;
};

// An episode that ended inside a rollout.
struct Episode {
  std::int64_t env = 0;     // b
  std::int64_t t = 0;       // its last step in the rollout
  std::int64_t number = 0;  // 0 for the first episode of its environment
  std::int64_t length = 0;  // steps
  std::int64_t nonzero_rewards = 0;
  double reward = 0;             // sum of the rewards that the agent saw
  double discounted_reward = 0;  // the same, discounted by SamplerOptions::discount
  double score = 0;  // sum of the raw rewards (the info "score" of the environment, if it has one)
  // The other reduced infos (InfoSpec::reduce); Batch::infos has their names.
  std::vector<double> info = {};
};

}  // namespace shoal
