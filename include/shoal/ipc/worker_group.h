#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "shoal/core/arena.h"

namespace shoal {

class WorkerError;

// Policy for a worker that has died, thrown, or exceeded its limit.
enum class OnDeath : std::uint8_t {
  kFail,     // WorkerError; all other workers are killed
  kRestart,  // the worker is forked again; the others do not notice
};

struct WorkerGroupOptions {
  std::chrono::milliseconds step_limit{60'000};  // one step of one environment
  std::chrono::milliseconds reset_limit{
      300'000};                 // one reset, or the construction of one environment
  std::vector<int> cores = {};  // the core of each worker, from allowed_cores(); empty: not pinned
  OnDeath on_death = OnDeath::kFail;
  // kRestart: the fifth death within this time ends the run.
  std::chrono::milliseconds death_window{60'000};
  // kRestart: called in the parent after a worker's process has ended and before its replacement.
  std::function<void(int worker, const WorkerError& death)> before_restart = {};
};

// A worker's activity, in shared memory, so that an error can say where it died. Only the worker
// writes it, with relaxed stores: an update costs a few nanoseconds and no system call.
class WorkerStatus {
 public:
  enum Phase : std::uint32_t { kWaiting, kConstructing, kResetting, kStepping, kSaving };
  void enter(Phase phase, std::int64_t env, std::int64_t step);  // env -1: none
  void leave() { enter(kWaiting, -1, -1); }
  // Number of earlier processes of this worker (OnDeath::kRestart).
  int past_lives() const;

 private:
  friend class WorkerGroup;
  explicit WorkerStatus(void* slot) : slot_(slot) {}
  void* slot_;
};

// Forked child processes that run `body(worker, status)` and never return to the caller. A body
// that returns is a failure.
//
// Construct it from the main thread, before CUDA has a context (both are checked, Error) and before
// the process starts threads. Children ignore SIGINT, SIGTERM and SIGHUP, which the parent handles,
// and die with their parent (PR_SET_PDEATHSIG). The text of an exception in `body`, or of a call of
// exit(), is passed to the parent.
//
// With OnDeath::kRestart, a fork server forks all workers. It is forked in the constructor, so
// workers can be forked again later from the memory of that moment, even though this process then
// has threads and CUDA. A worker's state outside shared memory is lost with it.
class WorkerGroup {
 public:
  using Body = std::function<void(int worker, WorkerStatus status)>;
  WorkerGroup(int workers, const Body& body, const WorkerGroupOptions& options = {});
  ~WorkerGroup();  // kills and reaps every child

  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Throws WorkerError for the first worker that has died, thrown, or spent longer than its limit
  // in one environment call; all workers have been killed and reaped by then, and later calls throw
  // the same error. Call it whenever a wait for workers times out, at least five times a second:
  // the time of a call counts from the first check that sees it, and an interval between two checks
  // counts as at most 0.2 s, so that suspending the whole run (Ctrl-Z) is not a hang.
  //
  // awaited: the worker whose step the caller waits for. If it does not even begin the step, it is
  // frozen, and the step limit applies as well. Throws Interrupted, too, once the grace period of a
  // stop is over.
  void check(int awaited = kNobody);
  static constexpr int kNobody = -1, kEverybody = -2;
  // The same for several workers.
  void check(const std::function<bool(int worker)>& awaited);

  // OnDeath::kRestart; call it once every worker has begun its work. From then on the end of a
  // worker is no error, unless it is the fifth within `death_window`, or the fifth in a row of this
  // worker without a completed step, or the fork server has died.
  void allow_restarts() { restarts_allowed_ = options_.on_death == OnDeath::kRestart; }
  // Restarts so far. Any thread may call it.
  std::int64_t restarts() const { return restarts_; }

  // 0 for a worker that is not started yet (OnDeath::kRestart); kill(0) would signal the whole
  // process group.
  std::vector<pid_t> pids() const;

 private:
  friend class WorkerStatus;
  struct Slot;
  struct ForkServer;
  struct Watch {
    std::uint64_t beat = 0;
    std::chrono::steady_clock::duration waited{};  // time since this beat
    bool reaped = false;                           // its pid may belong to another process now
    int idle_lives = 0;  // processes in a row that have ended before they completed a step
  };
  int workers() const { return static_cast<int>(watches_.size()); }
  Slot& slot(int worker) const;
  pid_t pid(int worker) const;
  pid_t start(int worker, const Body& body);
  // Returns the failure of this worker, or "". `passed`: time since the last check.
  std::string find_failure(int worker, bool awaited, std::chrono::steady_clock::duration passed);
  std::string end_of(int worker);
  void kill_all();

  bool has_fork_server() const { return options_.on_death == OnDeath::kRestart; }
  static Arena::Field plan_fork_server(Arena::Plan& plan);
  ForkServer& fork_server() const;
  void start_fork_server(const Body& body);
  void serve_forks(const Body& body);
  std::string end_by_fork_server(int worker);
  bool restart(int worker, const WorkerError& death);
  bool dies_too_often(int worker);
  bool await_end(int worker) const;
  void end_fork_server();

  WorkerGroupOptions options_;
  Arena::Plan plan_;
  Arena::Field slots_, fork_server_;
  Arena arena_;
  std::vector<pid_t> pids_;    // empty with a fork server
  pid_t fork_server_pid_ = 0;  // 0 without a fork server
  std::vector<Watch> watches_;
  std::chrono::steady_clock::time_point last_check_ = std::chrono::steady_clock::now();
  const pid_t owner_ = getpid();
  std::exception_ptr failure_;
  bool restarts_allowed_ = false;
  std::atomic<std::int64_t> restarts_{0};
  std::vector<std::chrono::steady_clock::time_point> deaths_;  // within death_window
};

// The cores this process may run on (its affinity mask), in increasing order.
std::vector<int> allowed_cores();
// Restricts the calling thread, and processes and threads that it starts, to these cores. Throws
// Error if that is not permitted.
void use_cores(const std::vector<int>& cores);

// Why this thread must not fork: it is not the main thread, or the process has a CUDA context.
// Empty if it may.
std::string obstacle_to_fork();
// Throws Error if there is an obstacle. Otherwise ends the threads that OpenMP keeps for the next
// parallel region, unless others forked this process: a fork has none of them, and would wait for
// them for ever.
void prepare_to_fork();

}  // namespace shoal
