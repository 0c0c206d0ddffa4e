#pragma once

#include <csignal>
#include <cstdint>

#include "shoal/core/stop.h"

namespace shoal {

// During its lifetime, the first SIGINT, SIGTERM or SIGHUP is a request to stop
// (shoal/core/stop.h), and a later one ends the process at once. A second signal within a second
// counts as the same request, because timeout(1) sends it twice. SIGHUP stays ignored if it was
// ignored at the start, as by nohup. The program polls caught() where it can stop cleanly. A wait
// for workers that exceeds the grace period of the request throws Interrupted. At most one guard
// exists per process.
class SignalGuard {
 public:
  // Effect of the first signal.
  enum class First : std::uint8_t {
    kAsks,  // a request to stop
    // Ends the process at once until remember() is called, because there is nothing to save yet.
    // SIGPIPE is ignored, because a closed output must not end training.
    kEndsAtOnce,
  };
  explicit SignalGuard(First first = First::kAsks);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  void remember() noexcept;
  int caught() const { return stop_requested(); }  // number of the signal, 0: none

 private:
  struct sigaction old_int_, old_term_, old_hangup_, old_pipe_;
  StopWatch watch_;
};

}  // namespace shoal
