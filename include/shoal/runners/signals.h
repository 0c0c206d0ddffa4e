#pragma once

#include <csignal>

namespace shoal {

// While it lives, the first SIGINT or SIGTERM is remembered, and another one ends the process at
// once; but not within a second of the first: that is the same request, sent twice, as timeout(1)
// does. The program looks at caught() where it can stop cleanly. One at a time in a process.
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
