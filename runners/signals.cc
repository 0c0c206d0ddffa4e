#include "shoal/runners/signals.h"

#include <unistd.h>

#include <atomic>

namespace shoal {
namespace {

std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // usable in a handler

void on_signal(int number) {
  if (caught_signal.exchange(number) != 0) ::_exit(128 + number);
}

}  // namespace

SignalGuard::SignalGuard() {
  caught_signal = 0;
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
