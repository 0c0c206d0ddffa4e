#pragma once

#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace shoal {

// A request to stop this process, usually from a signal. Loops call stop_requested() between steps.
// After a request, waits for other processes continue for a grace period, so that the current step
// can complete; then they throw Interrupted.

class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int number);
  const int signal;  // the signal that requested the stop
};

// The first request counts; 0 cancels it. Async-signal-safe.
void request_stop(int signal) noexcept;
// The signal of the request; 0 without one.
int stop_requested() noexcept;

inline constexpr std::chrono::seconds kStopGrace{10};
void set_stop_grace(std::chrono::milliseconds grace) noexcept;
// Restarts the grace period of a pending request.
void renew_stop_grace() noexcept;

// Throws Interrupted once the grace period of a request is over. Every wait of the main process for
// workers and ranks calls it about ten times a second.
void throw_if_interrupted();

// While an instance lives, no wait is interrupted: all ranks are writing a checkpoint.
class StopDeferred {
 public:
  StopDeferred() noexcept;
  ~StopDeferred();
  StopDeferred(const StopDeferred&) = delete;
  StopDeferred& operator=(const StopDeferred&) = delete;
};

// Marks a call that cannot poll for a stop request, because it runs an environment in this process
// or another library's code. A StopWatch ends the process if a requested stop's grace period is
// over and the call has run for at least that long, or if the call has run for longer than its
// limit (0: the limit of the previous call of this kind that had one). Time in which the process is
// suspended does not count. Several threads may be in calls of the same kind. Costs two atomic
// additions.
class BlockingCall {
 public:
  enum Kind : std::uint8_t { kEnvironment, kRanks, kThread, kKinds };
  explicit BlockingCall(Kind kind, std::chrono::nanoseconds limit = {}) noexcept : kind_(kind) {
    if (depth[kind_]++ != 0) return;
    if (limit.count() > 0) limits[kind_].store(limit.count(), std::memory_order_relaxed);
    counts[kind_].fetch_add(kBegun + 1, std::memory_order_relaxed);
  }
  ~BlockingCall() {
    if (--depth[kind_] == 0) counts[kind_].fetch_sub(1, std::memory_order_relaxed);
  }
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

 private:
  friend class StopWatch;
  // Calls begun so far, times kBegun, plus the number of threads in such a call now.
  inline static std::atomic<std::uint64_t> counts[kKinds]{};
  static constexpr std::uint64_t kBegun = 1 << 16;
  inline static std::atomic<std::int64_t> limits[kKinds]{};  // in nanoseconds
  inline static thread_local int depth[kKinds]{};            // calls may nest
  Kind kind_;
};

// Checks blocking calls on a timer once a stop is requested, or once they have limits: see
// BlockingCall. At most one per process.
class StopWatch {
 public:
  StopWatch();
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  friend class CallLimits;
  friend class CallTimeout;
  friend void request_stop(int signal) noexcept;
  static void look_every(std::int64_t interval) noexcept;
  static void look() noexcept;
  timer_t timer_{};
  bool made_ = false;
  pid_t owner_;  // children have a copy of this object, but not the timer
};

// While an instance lives, and a StopWatch, the limits of blocking calls are checked once a second.
class CallLimits {
 public:
  CallLimits() noexcept;
  ~CallLimits();
  CallLimits(const CallLimits&) = delete;
  CallLimits& operator=(const CallLimits&) = delete;
};

// Unless it is destroyed within the limit, the process prints this sentence to standard error and
// exits with status 1. For calls that nothing else can interrupt: an environment's constructor in
// this process, the initialisation of another library. The timer's signal goes to the thread that
// made the object.
class CallTimeout {
 public:
  CallTimeout(std::chrono::milliseconds limit, const std::string& sentence);
  ~CallTimeout();
  CallTimeout(const CallTimeout&) = delete;
  CallTimeout& operator=(const CallTimeout&) = delete;

 private:
  friend class StopWatch;
  static void on_timer(int number, siginfo_t* info, void* context);
  static void catch_timers();
  std::string sentence_;
  CallTimeout* outer_;
  timer_t timer_{};
  bool made_ = false;
};

// Runs the hook of before_sudden_exit(), then _exit(). Async-signal-safe if the hook is.
[[noreturn]] void exit_suddenly(int status) noexcept;
void before_sudden_exit(void (*hook)()) noexcept;  // null: no hook

std::string signal_name(int number);  // "SIGINT"; "signal 34" of one without a name

// Nanoseconds of the monotonic clock. Async-signal-safe.
std::int64_t monotonic_nanoseconds() noexcept;

// Whether SIGHUP was ignored when the program started, as under nohup(1).
bool hangup_is_ignored() noexcept;

}  // namespace shoal
