#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shoal {

// Process `place` of `count`, in a circle: each sends to the next one and receives from the one
// before. Whoever does not come within the timeout, is gone or does something else is named by a
// RankError, after which nobody may use the ring. Used by one thread.
class Ring {
 public:
  virtual ~Ring() = default;
  int place() const { return place_; }
  int count() const { return count_; }

  enum Kind : std::uint32_t { kSum, kGather };
  // What a pass is for: all must say the same.
  struct Act {
    Kind kind = kSum;
    std::uint32_t number = 0;  // which one it is, of all
    std::uint64_t size = 0;    // bytes of the whole
    bool operator==(const Act&) const = default;
  };
  // Sends all of `out` to the next, while all of `in` comes from the one before.
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
