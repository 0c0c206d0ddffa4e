#pragma once

#include <csignal>

namespace shoal {

// While it lives, the first SIGINT or SIGTERM is remembered and a second one ends the process at
// once. The program looks at caught() where it can stop cleanly. One at a time in a process.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  int caught() const;  // the signal's number, 0 if there was none

 private:
  struct sigaction old_int_, old_term_;
};

}  // namespace shoal
