#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "samplers/rollout_tensors.h"
#include "samplers/shared_rollout.h"
#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"

namespace shoal {

// An environment need not provide a mask when its episode is over; then all actions are legal.
// mask: one flag per action.
void complete_final_mask(std::span<std::byte> mask);

// Private copies of the final observations of one rollout, as complete stacks, with their action
// masks and the agent's state after that step. The capacity grows as needed and never shrinks.
class FinalObservationStore {
 public:
  FinalObservationStore(const SharedRollout& shared, const NamedSpecs& state);

  void clear() { t_.clear(), b_.clear(), truncated_.clear(); }
  // Copies the final observation of environment b, whose episode ended in step t. frame_index:
  // [T+1, B, stack] of the stacked fields. state: [B, ...] after step t.
  void add(std::int64_t t, std::int64_t b, const Named<RolloutTensors::Mirror>& frame_index,
           const NamedTensors& state);
  // All entries as FinalObservations on the agent's device, with values for truncated episodes.
  FinalObservations finish(Agent& agent) const;

 private:
  void grow();
  void copy_observation(std::size_t field, std::int64_t t, std::int64_t b,
                        const Named<RolloutTensors::Mirror>& frame_index);
  void copy_mask(std::size_t field, std::int64_t t, std::int64_t b);

  const SharedRollout& shared_;
  NamedSpecs state_specs_;
  std::int64_t capacity_ = 0;
  NamedTensors observation_;  // [capacity, ...], or [capacity, stack, ...] for stacked fields
  NamedTensors frame_;        // [capacity, stack] of stacked fields: where each is, or -1: blank
  NamedTensors mask_;         // [capacity, n]
  NamedTensors state_;        // [capacity, ...]
  NamedTensors action_;       // [capacity, ...], of the last step
  at::Tensor reward_;         // [capacity], of the last step
  std::vector<std::int64_t> t_, b_;
  std::vector<std::int64_t> truncated_;  // indices of the truncated ones
};

}  // namespace shoal
