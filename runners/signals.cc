#include "shoal/runners/signals.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace shoal {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;  // in nanoseconds

std::atomic<int> caught_signal{0};
std::atomic<std::int64_t> caught_at{0};  // nanoseconds of the monotonic clock; 0: not yet
// Usable in a handler.
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

// Two may run at once, in two threads: whichever sets the time is the first.
void on_signal(int number) {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  const std::int64_t now = t.tv_sec * kSecond + t.tv_nsec;
  std::int64_t first = 0;
  if (caught_at.compare_exchange_strong(first, now)) {
    caught_signal = number;
  } else if (now - first >= kSecond) {
    ::_exit(128 + number);
  }
}

}  // namespace

SignalGuard::SignalGuard() {
  caught_signal = 0;
  caught_at = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

SignalGuard::~SignalGuard() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

int SignalGuard::caught() const { return caught_signal; }

}  // namespace shoal
