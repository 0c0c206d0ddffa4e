#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "shoal/core/spec.h"

namespace shoal {

// Memory that processes share although it is not known before they are forked how much: made
// before the fork, and mapped by those that want it after it. It has no name either, and is gone
// with the last of them. Anybody may call, at any time.
class SharedFile {
 public:
  SharedFile();  // throws Error if there can be none
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // The first so many bytes of it, zeros where nobody has written; all ask for as many. Pages are
  // taken when they are touched, and a process that gets none dies: see Arena. Throws Error if
  // there is no room among its addresses.
  std::shared_ptr<std::byte> map(std::size_t bytes) const;

 private:
  int file_;
};

// A region of memory shared with every process forked after construction.
// Plan first, allocate once: nothing is allocated after the fork, so there is no allocator state to
// share and nothing to clean up when a worker dies. The region has no name: nothing stays in
// /dev/shm, whatever is killed.
//
// Reads and writes are unsynchronised; a protocol (StepBarrier) says who may touch what, when.
class Arena {
 public:
  // An array of arrays: `spec` behind the leading dimensions `lead`, contiguous, starting on 64
  // bytes.
  struct Field {
    std::size_t offset = 0;
    std::vector<std::int64_t> lead = {};
    ArraySpec spec = {};
    std::size_t element_bytes = 0;  // of spec: counted once, because every step asks for it

    std::int64_t elements() const;  // product of the leading dimensions
    std::size_t bytes() const;      // of the whole field, without padding
  };

  class Plan {
   public:
    // Throws Error for a dimension below zero or a size beyond what 64 bits hold.
    Field add(std::vector<std::int64_t> lead, ArraySpec spec);
    // Raw bytes on a cache line of their own; for synchronisation words.
    Field add_bytes(std::size_t bytes);
    std::size_t bytes() const { return bytes_; }

   private:
    std::size_t bytes_ = 0;
  };

  // Compares the plan with what the machine and the control group can still give, then maps and
  // populates it. Throws Error with both numbers if it does not fit. Debug builds fill it with
  // kMagic, release builds with zeros.
  explicit Arena(const Plan& plan);
  // Likewise of the plan that all those have who share the file. first: one of them, who is done
  // before the others begin.
  Arena(const Plan& plan, const SharedFile& file, bool first);

  std::byte* data(const Field& field) const { return base_ + field.offset; }
  // The element at `index` of the flattened leading dimensions.
  std::span<std::byte> element(const Field& field, std::int64_t index) const {
    return {data(field) + static_cast<std::size_t>(index) * field.element_bytes,
            field.element_bytes};
  }
  std::size_t bytes() const;
  std::span<std::byte> memory() const { return {base_, bytes_}; }  // all of it
  // Keeps the mapping alive; a tensor view holds one.
  std::shared_ptr<void> owner() const { return region_; }

  static constexpr std::byte kMagic{0xA5};

 private:
  void begin() const;

  std::shared_ptr<void> region_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// Bytes that can still be allocated: the smaller of MemAvailable and what every enclosing cgroup
// has left.
std::size_t available_memory();

}  // namespace shoal
