#pragma once

#include <cstdint>
#include <vector>

#include "samplers/shared_rows.h"

namespace shoal {

// What a TrajectoryRing hands from writers to the reader: whole windows, each in rows of its own;
// and for every writer the rows that its next window begins with, while it has no slot to write to.
struct RingRows {
  struct Sizes {
    SharedRows::Sizes window;  // its envs are those of one writer
    int slots, writers;
  };
  RingRows(Arena::Plan& plan, const EnvSpec& env, const AgentSpec& agent, const Sizes& sizes);
  void attach(const Arena& arena);

  // Steps that the environments of a writer had taken before the window it is at.
  std::int64_t& tick(int writer) const;
  // The writer that has the slot: brings its rows to the beginning of a window, and after the
  // window's last step on to the next one.
  void begin(int slot, int writer) const;
  void end(int slot, int writer) const;

  std::vector<SharedRows> slots;
  std::vector<Named<Arena::Field>> initial_state;  // of each slot: [B, ...], the agent's before it
  std::vector<SharedRows> next;                    // of each writer, of no steps
  Arena::Field ticks;                              // [writers], a cache line each
};

}  // namespace shoal
