#pragma once

#include <cstdint>

#include "shoal/data/samples.h"

namespace shoal {

// The last steps of B environments, for an algorithm to learn from again and again; what it draws
// from one is the matter of its kind. Windows are appended as a sampler gives them, one after the
// other. In the process that learns, used by one thread.
class Replay {
 public:
  virtual ~Replay() = default;

  // Takes over a window of T steps. Throws Error for a window of other environments, or a longer
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

}  // namespace shoal
