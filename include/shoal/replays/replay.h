#pragma once

#include <cstdint>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/data/samples.h"

namespace shoal {

// The last steps of B environments, for an algorithm to learn from again and again; what it draws
// from one is the matter of its kind. Rollouts are appended as a sampler gives them, one after the
// other. In the process that learns, used by one thread.
class Replay {
 public:
  virtual ~Replay() = default;

  // Takes over a rollout of T steps. Throws Error for a rollout of other environments, or a longer
  // one than it can hold.
  virtual void append(const Samples& samples) = 0;
  // Steps, or beginnings of sequences, that can be drawn now.
  virtual std::int64_t size() const = 0;

  // Everything that later draws depend on, by name, on the CPU; views that end with the next
  // append().
  virtual NamedTensors save() = 0;
  // Goes on from what a replay of the same kind, environments and options has saved. Throws Error
  // if something is missing or of another type or shape.
  virtual void restore(const NamedTensors& saved) = 0;
};

// Where ranks on one machine keep a replay that all of them draw from; made before they are forked.
struct ReplayMemory {
  SharedFile steps, last_observations, states;
};

// What Replay::save() gave, for processes that share the environments otherwise than those that
// saved it: of how many environments it is, a part of them, and the parts of all, one after the
// other, as one. With as many slices in all (StepReplayOptions::slices) the draws go on as they
// would have. Throw Error for environments that are not there, and for parts of different steps.
std::int64_t envs_of_saved_replay(const NamedTensors& saved);
NamedTensors part_of_saved_replay(const NamedTensors& saved, std::int64_t first_env,
                                  std::int64_t envs);
NamedTensors join_saved_replays(const std::vector<NamedTensors>& parts);

}  // namespace shoal
