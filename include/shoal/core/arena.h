#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "shoal/core/spec.h"

namespace shoal {

// A memory file that processes share when its size is only known after the fork: created before the
// fork, mapped afterwards by each process that needs it. It has no name and is freed with the last
// process that holds it. Any process may call map() at any time.
class SharedFile {
 public:
  SharedFile();  // throws Error if memfd_create fails
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Maps the first `bytes` bytes, zero where nothing was written; every process passes the same
  // size. Pages are allocated on first touch, and a process dies if none is left: see Arena. Throws
  // Error if the address space has no room.
  std::shared_ptr<std::byte> map(std::size_t bytes) const;

 private:
  int file_;
};

// A region of memory shared with every process forked after construction. The layout is planned
// first and allocated once: nothing is allocated after the fork, so there is no shared allocator
// state, and nothing to clean up when a worker dies. The region has no name and leaves nothing in
// /dev/shm, whichever process is killed.
//
// Reads and writes are unsynchronised; a protocol (StepBarrier) defines who may access which field,
// and when.
class Arena {
 public:
  // An array of arrays: leading dimensions `lead`, then `spec`; contiguous, aligned to 64 bytes.
  struct Field {
    std::size_t offset = 0;
    std::vector<std::int64_t> lead = {};
    ArraySpec spec = {};
    std::size_t element_bytes = 0;  // of spec; cached because every step needs it

    std::int64_t elements() const;  // product of the leading dimensions
    std::size_t bytes() const;      // of the whole field, without padding
  };

  class Plan {
   public:
    // Throws Error for a negative dimension or a size that overflows 64 bits.
    Field add(std::vector<std::int64_t> lead, ArraySpec spec);
    // Raw bytes on their own cache line, for synchronisation words.
    Field add_bytes(std::size_t bytes);
    std::size_t bytes() const { return bytes_; }

   private:
    std::size_t bytes_ = 0;
  };

  // Compares the plan with the memory that the machine and the cgroup have left, then maps and
  // populates the region. Throws Error with both numbers if it does not fit. Debug builds fill it
  // with kMagic, release builds with zeros.
  explicit Arena(const Plan& plan);
  // The same in a SharedFile; all processes that map the file pass the same plan. first: exactly
  // one process passes true, and its constructor returns before any other begins.
  Arena(const Plan& plan, const SharedFile& file, bool first);

  std::byte* data(const Field& field) const { return base_ + field.offset; }
  // The element at `index` of the flattened leading dimensions.
  std::span<std::byte> element(const Field& field, std::int64_t index) const {
    return {data(field) + static_cast<std::size_t>(index) * field.element_bytes,
            field.element_bytes};
  }
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

// Bytes that can still be allocated: the minimum of MemAvailable and the remainder of every
// enclosing cgroup.
std::size_t available_memory();

}  // namespace shoal
