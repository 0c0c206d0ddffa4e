#pragma once

#include <cstdint>
#include <vector>

#include "samplers/shared_rollout.h"

namespace shoal {

// What a TrajectoryRing hands from writers to the reader: whole rollouts, each in rows of its own;
// and for every writer the rows that its next rollout begins with, while it has no slot to write
// to.
struct RolloutSlots {
  struct Sizes {
    SharedRollout::Sizes rollout;  // its envs are those of one writer
    int slots, writers;
  };
  RolloutSlots(Arena::Plan& plan, const EnvSpec& env, const AgentSpec& agent, const Sizes& sizes);
  void attach(const Arena& arena);

  // Steps that the environments of a writer had taken before the rollout it is at.
  std::int64_t& tick(int writer) const;
  // The writer that has the slot: brings its rows to the beginning of a rollout, and after the
  // rollout's last step on to the next one.
  void begin(int slot, int writer) const;
  void end(int slot, int writer) const;

  std::vector<SharedRollout> slots;
  std::vector<Named<Arena::Field>> initial_state;  // of each slot: [B, ...], the agent's before it
  std::vector<SharedRollout> next;                 // of each writer, of no steps
  Arena::Field ticks;                              // [writers], a cache line each
};

}  // namespace shoal
