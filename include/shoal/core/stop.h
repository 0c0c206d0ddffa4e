#pragma once

#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace shoal {

// The request to stop this process, usually by a signal. Code that works in steps calls
// stop_requested() between them. Waits for other processes go on for a time of grace, so that the
// step under way can be completed, and are given up after it: they throw Interrupted.

class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int number);
  const int signal;  // that asked to stop
};

// The first request counts; 0 takes it back. Async-signal-safe.
void request_stop(int signal) noexcept;
// The signal; 0 if there was none.
int stop_requested() noexcept;

inline constexpr std::chrono::seconds kStopGrace{10};
void set_stop_grace(std::chrono::milliseconds grace) noexcept;
// The grace of a request that there is begins anew.
void renew_stop_grace() noexcept;

// Throws Interrupted once the grace of a request is over. Every wait of the main process for
// workers and ranks calls it, about ten times a second.
void throw_if_interrupted();

// While one lives, no wait is given up: a checkpoint is being written by all ranks.
class StopDeferred {
 public:
  StopDeferred() noexcept;
  ~StopDeferred();
  StopDeferred(const StopDeferred&) = delete;
  StopDeferred& operator=(const StopDeferred&) = delete;
};

// Marks a call that cannot look at the request, because it runs an environment in this process or
// another library's code. A StopWatch ends the process if such a call is under way when the grace
// is over, and has been for as long as that. Threads may be in calls of one kind at the same time.
// Costs two atomic additions.
class BlockingCall {
 public:
  enum Kind : std::uint8_t { kEnvironment, kRanks, kThread, kKinds };
  explicit BlockingCall(Kind kind) noexcept : kind_(kind) {
    if (depth[kind_]++ == 0) counts[kind_].fetch_add(kBegun + 1, std::memory_order_relaxed);
  }
  ~BlockingCall() {
    if (--depth[kind_] == 0) counts[kind_].fetch_sub(1, std::memory_order_relaxed);
  }
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

 private:
  friend class StopWatch;
  // Calls that have begun, times kBegun, plus the threads that are in such a call now.
  inline static std::atomic<std::uint64_t> counts[kKinds]{};
  static constexpr std::uint64_t kBegun = 1 << 16;
  inline static thread_local int depth[kKinds]{};  // calls may contain others
  Kind kind_;
};

// Looks at blocking calls once there is a request, by a timer: see BlockingCall. One at a time in a
// process.
class StopWatch {
 public:
  StopWatch();
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  friend class CallTimeout;
  friend void request_stop(int signal) noexcept;
  static void look() noexcept;
  timer_t timer_{};
  bool made_ = false;
};

// Unless it is destroyed within the limit, the process ends with this sentence on standard error
// and status 1. For calls that nobody else can end: an environment's constructor in this process,
// the start of another library. The signal of its timer goes to the thread that made it.
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

// _exit(), after what before_sudden_exit() was given last. Async-signal-safe, if that is.
[[noreturn]] void exit_suddenly(int status) noexcept;
void before_sudden_exit(void (*hook)()) noexcept;  // null: nothing

// The monotonic clock. Async-signal-safe.
std::int64_t monotonic_nanoseconds() noexcept;

// Whether SIGHUP was ignored when the program began, as nohup(1) does.
bool hangup_is_ignored() noexcept;

}  // namespace shoal
