#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "src/ipc/futex.h"

namespace shoal {

// Waiting for a word in shared memory to be what it should. How no wake-up is lost: the waiter
// raises its flag and then looks at the word; the other side changes the word and then looks at the
// flag. All four are sequentially consistent, so at least one of the two sees the other's write:
// the waiter does not park, or is woken. The kernel's own comparison covers the time between the
// last look and the parking. Whoever lowers another's flag changes the word after that.

using Word = std::atomic<std::uint32_t>;

static_assert(Word::is_always_lock_free, "words are shared between processes");

// Polls; whether `ready(value)` came true.
template <class Ready>
bool poll(const Word& word, int times, Ready ready) {
  for (int i = 0;; ++i) {
    if (ready(word.load(std::memory_order_acquire))) return true;
    if (i >= times) return false;
    __builtin_ia32_pause();
  }
}

// The same until the deadline, but between two looks whoever else wants the core has it. Where
// there is nobody the core stays awake, which a parked process's core does not: to wake it up takes
// longer than many a wait.
template <class Ready>
bool poll_yielding(const Word& word, int times, std::chrono::steady_clock::time_point deadline,
                   Ready ready) {
  for (int i = 0; i < times && std::chrono::steady_clock::now() < deadline; ++i) {
    sched_yield();
    if (ready(word.load(std::memory_order_acquire))) return true;
  }
  return false;
}

// When a wait of this length ends, from now on.
inline std::chrono::steady_clock::time_point deadline_of(std::chrono::milliseconds timeout) {
  constexpr std::chrono::hours kLongestWait{24};  // keeps the sum from overflowing
  return std::chrono::steady_clock::now() +
         std::min<std::chrono::milliseconds>(timeout, kLongestWait);
}

// Parks until `ready(value)` or the deadline; which it was.
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
