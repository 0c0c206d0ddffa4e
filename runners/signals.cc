#include "shoal/runners/signals.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace shoal {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;  // in nanoseconds

std::atomic<std::int64_t> caught_at{0};  // nanoseconds of the monotonic clock; 0: no signal yet
std::atomic<bool> ends_at_once{false};
// Required for use in a signal handler.
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

// Two handlers may run at once in two threads; the first one sets the time.
void on_signal(int number) {
  if (ends_at_once) exit_suddenly(128 + number);
  const std::int64_t now = monotonic_nanoseconds();
  std::int64_t first = 0;
  if (caught_at.compare_exchange_strong(first, now)) {
    request_stop(number);
  } else if (now - first >= kSecond) {
    ::_exit(128 + number);
  }
}

}  // namespace

SignalGuard::SignalGuard(First first) {
  request_stop(0);
  caught_at = 0;
  ends_at_once = first == First::kEndsAtOnce;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
  sigaction(SIGHUP, nullptr, &old_hangup_);
  if (!hangup_is_ignored()) sigaction(SIGHUP, &action, nullptr);
  sigaction(SIGPIPE, nullptr, &old_pipe_);
  action.sa_handler = SIG_IGN;
  if (first == First::kEndsAtOnce) sigaction(SIGPIPE, &action, nullptr);
}

SignalGuard::~SignalGuard() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGHUP, &old_hangup_, nullptr);
  sigaction(SIGPIPE, &old_pipe_, nullptr);
}

void SignalGuard::remember() noexcept { ends_at_once = false; }

}  // namespace shoal
