#include "interruptible.h"

#include <signal.h>

#include <chrono>

namespace shoal::bindings {
namespace {

struct sigaction python_handler;
bool replaced = false;

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
  if (!replaced) return;
  sigaction(SIGINT, &python_handler, nullptr);
  request_stop(0);
  set_stop_grace(kStopGrace);
}

}  // namespace shoal::bindings
