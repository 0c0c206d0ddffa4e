#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

#include "shoal/distributed/process_group.h"
#include "shoal/replays/replay.h"
#include "src/replays/step_store.h"

namespace shoal {

// One rank's share of a replay. All ranks must call the same functions in the same order.
class ReplayShare {
 public:
  // A replay that is not shared.
  ReplayShare() = default;
  ReplayShare(ProcessGroup& ranks, const ReplayMemory& memory) : ranks_(&ranks), memory_(&memory) {}

  int rank() const { return ranks_->rank(); }
  int count() const { return ranks_->count(); }
  const ReplayMemory* memory() const { return memory_; }
  bool is_shared() const { return memory_ != nullptr; }
  StoreShare of_store() const { return {rank(), count(), memory_}; }

  // A barrier.
  void meet() const;
  // A barrier that throws Error unless all ranks pass the same number of steps.
  void meet_with_steps(std::int64_t T) const;
  // Returns make(), which rank 0 completes before the others start.
  template <class Make>
  auto in_turn(const Make& make) const {
    if (rank() > 0) meet();
    auto made = make();
    if (rank() == 0) meet();
    return made;
  }
  // This rank's range of n items. Throws Error unless the ranks can share them evenly. what: for
  // the message, e.g. "steps".
  struct Part {
    std::size_t from, count;
  };
  Part part_of(std::int64_t n, const char* what) const;
  // Concatenates x of all ranks, in rank order, along this dimension. x: on any device; the result
  // is on the CPU.
  at::Tensor join(const at::Tensor& x, std::int64_t dim) const;

 private:
  ProcessGroup* ranks_ = &group_of_one();
  const ReplayMemory* memory_ = nullptr;
};

}  // namespace shoal
