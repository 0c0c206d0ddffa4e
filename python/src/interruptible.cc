#include "interruptible.h"

#include <signal.h>

#include <chrono>
#include <mutex>

namespace shoal::bindings {
namespace {

// Several threads may be interruptible at once: the first sets the handler, the last one restores
// Python's.
std::mutex mutex;
int instances = 0;
bool replaced = false;
struct sigaction python_handler;

void on_interrupt(int number, siginfo_t* info, void* context) {
  request_stop(number);
  if ((python_handler.sa_flags & SA_SIGINFO) != 0)
    python_handler.sa_sigaction(number, info, context);
  else
    python_handler.sa_handler(number);
}

bool handles(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

}  // namespace

Interruptible::Interruptible() {
  const std::scoped_lock lock(mutex);
  if (instances++ > 0) return;
  sigaction(SIGINT, nullptr, &python_handler);
  replaced = handles(python_handler);
  if (!replaced) return;
  request_stop(0);
  set_stop_grace(std::chrono::seconds(1));
  auto own = python_handler;
  own.sa_flags |= SA_SIGINFO;
  own.sa_sigaction = on_interrupt;
  sigaction(SIGINT, &own, nullptr);
}

Interruptible::~Interruptible() {
  const std::scoped_lock lock(mutex);
  if (--instances > 0 || !replaced) return;
  sigaction(SIGINT, &python_handler, nullptr);
  request_stop(0);
  set_stop_grace(kStopGrace);
}

bool Interruptible::was_pressed() const { return replaced && stop_requested() != 0; }

}  // namespace shoal::bindings
