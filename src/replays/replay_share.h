#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

#include "shoal/distributed/process_group.h"
#include "shoal/replays/replay.h"
#include "src/replays/step_store.h"

namespace shoal {

// What one rank has of a replay that several share. All of them call the same functions in the same
// order.
class ReplayShare {
 public:
  // Of a replay that nobody shares.
  ReplayShare() = default;
  ReplayShare(ProcessGroup& ranks, const ReplayMemory& memory) : ranks_(&ranks), memory_(&memory) {}

  int rank() const { return ranks_->rank(); }
  int count() const { return ranks_->count(); }
  const ReplayMemory* memory() const { return memory_; }
  bool is_shared() const { return memory_ != nullptr; }
  StoreShare of_store() const { return {rank(), count(), memory_}; }

  // No rank comes out before all have come.
  void meet() const;
  // Likewise, with rollouts of so many steps. Throws Error unless all have as many.
  void meet_with_steps(std::int64_t T) const;
  // What make() gives; rank 0 is done before the others begin.
  template <class Make>
  auto in_turn(const Make& make) const {
    if (rank() > 0) meet();
    auto made = make();
    if (rank() == 0) meet();
    return made;
  }
  // Which of n things that all draw are this rank's: the first one, and how many. Throws Error
  // unless they can be shared evenly. what: "steps".
  struct Part {
    std::size_t from, count;
  };
  Part part_of(std::int64_t n, const char* what) const;
  // What all have, one rank's behind the other's along this dimension. x: on any device; the result
  // is on the CPU.
  at::Tensor join(const at::Tensor& x, std::int64_t dim) const;

 private:
  ProcessGroup* ranks_ = &group_of_one();
  const ReplayMemory* memory_ = nullptr;
};

}  // namespace shoal
