#pragma once

#include <sys/types.h>

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

// What becomes of a group one of whose workers has died, thrown, or exceeded its limit.
enum class OnDeath : std::uint8_t {
  kFail,     // WorkerError; all others are killed
  kRestart,  // it is forked anew, and the others never know
};

struct WorkerGroupOptions {
  std::chrono::milliseconds step_limit{60'000};  // one step of one environment
  std::chrono::milliseconds reset_limit{
      300'000};                 // one reset, or the construction of one environment
  std::vector<int> cores = {};  // core of each worker, from allowed_cores(); empty: not pinned
  OnDeath on_death = OnDeath::kFail;
  // kRestart: called in the parent between the end of a worker's process and its next one.
  std::function<void(int worker, const WorkerError& death)> before_restart = {};
};

// What a worker is doing, in shared memory, so that its death can be named. Written by the worker
// only, with relaxed stores: an update costs a few nanoseconds and no system call.
class WorkerStatus {
 public:
  enum Phase : std::uint32_t { kWaiting, kConstructing, kResetting, kStepping, kSaving };
  void enter(Phase phase, std::int64_t env, std::int64_t step);  // env -1: none
  void leave() { enter(kWaiting, -1, -1); }
  // How many processes this worker has had before (OnDeath::kRestart).
  int past_lives() const;

 private:
  friend class WorkerGroup;
  explicit WorkerStatus(void* slot) : slot_(slot) {}
  void* slot_;
};

// Forked child processes that run `body(worker, status)` and never return to the caller.
//
// Construct from the main thread, before CUDA has a context (both are checked, Error) and before
// the process starts threads. Children ignore SIGINT, SIGTERM and SIGHUP (the parent decides), and
// die with their parent (PR_SET_PDEATHSIG). An exception in `body` travels as text to the parent;
// so does a call of exit().
//
// With OnDeath::kRestart all of them are forked by a process of its own, made here: so they can be
// forked anew later, when this one has threads and CUDA, from the memory of this moment. Nothing a
// worker had outside shared memory survives it.
class WorkerGroup {
 public:
  using Body = std::function<void(int worker, WorkerStatus status)>;
  WorkerGroup(int workers, const Body& body, const WorkerGroupOptions& options = {});
  ~WorkerGroup();  // kills and reaps every child

  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Throws WorkerError for the first worker that has died, thrown, or been in one environment call
  // for longer than its limit. Call it whenever a wait for workers times out, five times a second
  // or more: a hang is measured from the first call that saw it begin, and longer times between two
  // calls count as 0.2 s, so that suspending a whole run (Ctrl-Z) is no hang. By then every worker
  // has been killed and reaped; later calls throw the same again.
  //
  // awaited: the worker whose step the caller waits for. If that one does not even begin it, it is
  // frozen, and the limit of a step holds for it too.
  void check(int awaited = kNobody);
  static constexpr int kNobody = -1, kEverybody = -2;
  // Likewise of several.
  void check(const std::function<bool(int worker)>& awaited);

  // OnDeath::kRestart, once every worker has begun its work: what ends one from now on is no error,
  // unless it is the fifth time within a minute that one of them ends, or the process that forks
  // them has died.
  void allow_restarts() { restarts_allowed_ = options_.on_death == OnDeath::kRestart; }
  // So far. Anybody may ask.
  std::int64_t restarts() const { return restarts_; }

  // 0 of a worker that is not started yet (OnDeath::kRestart): to kill() that is the whole group.
  std::vector<pid_t> pids() const;

 private:
  friend class WorkerStatus;
  struct Slot;
  struct ForkServer;
  struct Watch {
    std::uint64_t beat = 0;
    std::chrono::steady_clock::duration waited{};  // for this beat to end
    bool reaped = false;                           // its pid may belong to another process by now
  };
  int workers() const { return static_cast<int>(watches_.size()); }
  Slot& slot(int worker) const;
  pid_t pid(int worker) const;
  pid_t start(int worker, const Body& body);
  // What to report of this worker; "" if all is well. `passed`: time since the last look.
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
  bool dies_too_often();
  bool await_end(int worker) const;
  void end_fork_server();

  WorkerGroupOptions options_;
  Arena::Plan plan_;
  Arena::Field slots_, fork_server_;
  Arena arena_;
  std::vector<pid_t> pids_;    // empty if a fork server has them
  pid_t fork_server_pid_ = 0;  // of the process that forks all others, if there is one
  std::vector<Watch> watches_;
  std::chrono::steady_clock::time_point last_check_ = std::chrono::steady_clock::now();
  std::exception_ptr failure_;
  bool restarts_allowed_ = false;
  std::atomic<std::int64_t> restarts_{0};
  std::vector<std::chrono::steady_clock::time_point> deaths_;  // of the last minute
};

// The cores this process may run on (its affinity mask), in increasing order.
std::vector<int> allowed_cores();
// From now on the calling thread, and what it starts, use these cores only. Throws Error if it may
// not.
void use_cores(const std::vector<int>& cores);

// Throws Error unless a fork is safe here: main thread, and no CUDA context in this process.
void require_fork_is_safe();

}  // namespace shoal
