#pragma once

#include <cstdint>
#include <vector>

#include "samplers/shared_rollout.h"

namespace shoal {

// The contents of a TrajectoryRing's slots: one whole rollout each, passed from writers to the
// reader. Also holds, for every writer, the rows that its next rollout begins with, until it has a
// slot to write to.
struct RolloutSlots {
  struct Sizes {
    SharedRollout::Sizes rollout;  // its envs are those of one writer
    int slots, writers;
  };
  RolloutSlots(Arena::Plan& plan, const EnvSpec& env, const AgentSpec& agent, const Sizes& sizes);
  void attach(const Arena& arena);

  // Number of steps that the environments of a writer had taken before its current rollout.
  std::int64_t& tick(int writer) const;
  // Called by the writer that holds the slot. begin() copies its first rows to the slot; end(),
  // after the last step, keeps the slot's last rows for the next rollout.
  void begin(int slot, int writer) const;
  void end(int slot, int writer) const;

  std::vector<SharedRollout> slots;
  std::vector<Named<Arena::Field>> initial_state;  // of each slot: [B, ...], the agent's before
  std::vector<SharedRollout> next;                 // of each writer, with horizon 0
  Arena::Field ticks;                              // [writers], a cache line each
};

}  // namespace shoal
