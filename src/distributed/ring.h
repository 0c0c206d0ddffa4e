#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shoal {

// Process `place` of `count` in a ring: each sends to the next one and receives from the previous
// one. A RankError names a process that is late, has died, or deviates; afterwards the ring must
// not be used. Used by one thread.
class Ring {
 public:
  virtual ~Ring() = default;
  int place() const { return place_; }
  int count() const { return count_; }

  enum Kind : std::uint32_t { kSum, kGather };
  // Identifies the exchange that a pass belongs to; must be equal in all processes.
  struct Act {
    Kind kind = kSum;
    std::uint32_t number = 0;  // counts exchanges
    std::uint64_t size = 0;    // total bytes
    bool operator==(const Act&) const = default;
  };
  // Sends `out` to the next process while receiving `in` from the previous one.
  virtual void pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in) = 0;

 protected:
  Ring(int place, int count, std::chrono::milliseconds timeout)
      : place_(place), count_(count), timeout_(timeout) {}
  std::chrono::milliseconds timeout() const { return timeout_; }
  int next_place() const { return (place_ + 1) % count_; }
  int place_before() const { return (place_ + count_ - 1) % count_; }
  [[noreturn]] void fail(int place, const std::string& what) const;
  [[noreturn]] void fail_for_lateness(int place) const;
  [[noreturn]] void fail_for_difference(const Act& theirs, const Act& own) const;

 private:
  int place_, count_;
  std::chrono::milliseconds timeout_;
};

}  // namespace shoal
