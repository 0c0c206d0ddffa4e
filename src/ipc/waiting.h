#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "src/core/cpu_features.h"
#include "src/ipc/futex.h"

namespace shoal {

// Waits for a word in shared memory to reach a state. No wake-up is lost: the waiter raises its
// flag, then reads the word; the other side changes the word, then reads the flag. All four
// accesses are sequentially consistent, so at least one side sees the other's write: either the
// waiter does not park, or it is woken. The kernel's comparison covers the time between the last
// read and the parking. A process that lowers another's flag changes the word afterwards.

using Word = std::atomic<std::uint32_t>;

static_assert(Word::is_always_lock_free, "words are shared between processes");

// Polls; returns whether `ready(value)` came true.
template <class Ready>
bool poll(const Word& word, int times, Ready ready) {
  for (int i = 0;; ++i) {
    if (ready(word.load(std::memory_order_acquire))) return true;
    if (i >= times) return false;
    pause_core();
  }
}

// The same until the deadline, but yields the core between two polls. On an idle machine the core
// stays awake, unlike with a parked process, whose wake-up takes longer than many waits.
template <class Ready>
bool poll_yielding(const Word& word, int times, std::chrono::steady_clock::time_point deadline,
                   Ready ready) {
  for (int i = 0; i < times && std::chrono::steady_clock::now() < deadline; ++i) {
    sched_yield();
    if (ready(word.load(std::memory_order_acquire))) return true;
  }
  return false;
}

// The deadline of a wait that starts now.
inline std::chrono::steady_clock::time_point deadline_of(std::chrono::milliseconds timeout) {
  constexpr std::chrono::hours kLongestWait{24};  // prevents overflow of the sum
  return std::chrono::steady_clock::now() +
         std::min<std::chrono::milliseconds>(timeout, kLongestWait);
}

// Parks until `ready(value)` or the deadline; returns whether it is ready.
template <class Ready>
bool park(Word& word, std::chrono::steady_clock::time_point deadline, Ready ready) {
  for (;;) {
    const auto seen = word.load(std::memory_order_seq_cst);
    if (ready(seen)) return true;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::steady_clock::duration::zero()) return false;
    futex_wait(word, seen, left);
  }
}

}  // namespace shoal
