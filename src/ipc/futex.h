#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace shoal {

// Futexes shared between processes. std::atomic::wait is no alternative: libstdc++ uses
// FUTEX_WAIT_PRIVATE, which is invisible to other processes.

// Parks while `word` holds `seen`, at most for `limit`. Wake-ups may be spurious: the caller must
// check again.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                       std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit);
  const timespec time{static_cast<std::time_t>(seconds.count()),
                      static_cast<long>((limit - seconds).count())};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// The same for a word with waiters for different events: a waiter with `bits` is woken by
// futex_wake() with an overlapping mask, and by futex_wake_all(). The clock is CLOCK_MONOTONIC.
inline void futex_wait_for(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                           std::chrono::steady_clock::time_point deadline, std::uint32_t bits) {
  const auto since_boot = deadline.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  const timespec time{static_cast<std::time_t>(seconds.count()),
                      static_cast<long>(std::chrono::nanoseconds(since_boot - seconds).count())};
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, &time, nullptr, bits);
}

inline void futex_wake(std::atomic<std::uint32_t>& word, std::uint32_t bits) {
  syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, bits);
}

}  // namespace shoal
