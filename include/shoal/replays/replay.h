#pragma once

#include <cstdint>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/data/samples.h"

namespace shoal {

// The last steps of B environments, from which an off-policy algorithm learns; subclasses define
// what is drawn. Rollouts are appended in the order in which a sampler returns them. Used by one
// thread of the learning process.
class Replay {
 public:
  virtual ~Replay() = default;

  // Copies a rollout of T steps. Throws Error if its environments differ, or if it is longer than
  // the replay can hold.
  virtual void append(const Samples& samples) = 0;
  // Steps, or sequences, that can be drawn now.
  virtual std::int64_t size() const = 0;

  // The whole state, by name, on the CPU: later draws depend on nothing else. The tensors are
  // views, valid until the next append() or update_priorities().
  virtual NamedTensors save() = 0;
  // Restores the state saved by a replay of the same kind, environments and options. Throws Error
  // if a tensor is missing or has another type or shape.
  virtual void restore(const NamedTensors& saved) = 0;
};

// Memory of a replay that all ranks on one machine share; created before they are forked.
struct ReplayMemory {
  SharedFile steps, last_observations, states;
};

// Resharding of the result of Replay::save() for another division of the environments among ranks:
// its number of environments, a range of them, and the concatenation of consecutive ranges. With an
// unchanged total of slices (StepReplayOptions::slices) the draws continue as without resharding.
// Throw Error for environments out of range, and for parts that hold different steps.
std::int64_t envs_of_saved_replay(const NamedTensors& saved);
NamedTensors part_of_saved_replay(const NamedTensors& saved, std::int64_t first_env,
                                  std::int64_t envs);
NamedTensors join_saved_replays(const std::vector<NamedTensors>& parts);

}  // namespace shoal
