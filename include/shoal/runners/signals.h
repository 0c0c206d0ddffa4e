#pragma once

#include <csignal>
#include <cstdint>

#include "shoal/core/stop.h"

namespace shoal {

// While it lives, the first SIGINT, SIGTERM or SIGHUP (unless that was ignored from the start, as
// by nohup) is a request to stop (shoal/core/stop.h), and another one ends the process at once; but
// not within a second of the first: that is the same request, sent twice, as timeout(1) does. The
// program looks at caught() where it can stop cleanly; waits for workers that do not end within the
// grace of such a request throw Interrupted. One at a time in a process.
class SignalGuard {
 public:
  // The effect of the first signal.
  enum class First : std::uint8_t {
    kAsks,  // it is a request
    // It ends the process at once, until remember() is called: there is nothing to lose yet. And
    // SIGPIPE is ignored: a closed output must not end a training.
    kEndsAtOnce,
  };
  explicit SignalGuard(First first = First::kAsks);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  void remember() noexcept;
  int caught() const { return stop_requested(); }  // the signal's number, 0 if there was none

 private:
  struct sigaction old_int_, old_term_, old_hangup_, old_pipe_;
  StopWatch watch_;
};

}  // namespace shoal
