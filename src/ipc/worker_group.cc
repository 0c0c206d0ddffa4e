#include "shoal/ipc/worker_group.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "shoal/core/stop.h"
#include "src/ipc/child_process.h"
#include "src/ipc/descendants.h"
#include "src/ipc/worker_slot.h"

namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;

const WorkerGroupOptions& checked(int workers, const WorkerGroupOptions& options) {
  require(workers >= 1, "a group of {} workers; expected at least 1", workers);
  prepare_to_fork();
  if (options.cores.empty()) return options;
  require(options.cores.size() == static_cast<std::size_t>(workers),
          "{} cores for {} workers; expected one per worker, or none", options.cores.size(),
          workers);
  const auto allowed = allowed_cores();
  for (const int core : options.cores)
    require(std::ranges::count(allowed, core) == 1,
            "worker core {} is not among the {} cores this process may run on ({} to {})", core,
            allowed.size(), allowed.front(), allowed.back());
  return options;
}

// The time between two checks counts against a worker's limit only up to this: anything longer is
// the parent's own work, or a suspension of all processes (Ctrl-Z).
constexpr std::chrono::milliseconds kLongestStretch{200};

// Ends the child without the parent's destructors and exit handlers, but flushes its output.
[[noreturn]] void leave_process(int code) {
  std::fflush(stdout);
  _exit(code);
}

// Marks the processes that this worker forks as not being the worker.
void know_own_forks() {
  forked_by_worker = false;
  pthread_atfork(nullptr, nullptr, [] { forked_by_worker = true; });
}

}  // namespace

WorkerGroup::WorkerGroup(int workers, const Body& body, const WorkerGroupOptions& options)
    : options_(checked(workers, options)),
      slots_(plan_.add({workers}, {.dtype = DType::kUInt8, .shape = {sizeof(Slot)}})),
      fork_server_(plan_fork_server(plan_)),
      arena_(plan_) {
  for (int w = 0; w < workers; ++w) new (&slot(w)) Slot;
  start_reaper();
  std::fflush(nullptr);  // otherwise the children would print the buffered output, too
  watches_.resize(static_cast<std::size_t>(workers));
  if (options.on_death == OnDeath::kRestart) {
    start_fork_server(body);
    return;
  }
  for (int w = 0; w < workers; ++w) {
    const pid_t pid = start(w, body);
    if (pid < 0) {
      const int error = errno;
      kill_all();
      throw Error(
          "worker {} of {} could not be forked: {}; use fewer workers or a higher `ulimit -u`", w,
          workers, std::strerror(error));
    }
    pids_.push_back(pid);
  }
}

WorkerGroup::~WorkerGroup() { kill_all(); }

WorkerGroup::Slot& WorkerGroup::slot(int worker) const {
  return *reinterpret_cast<Slot*>(arena_.element(slots_, worker).data());
}

pid_t WorkerGroup::start(int worker, const Body& body) {
  const pid_t parent = getpid();
  {
    const SignalsBlocked blocked;
    const pid_t pid = fork();
    if (pid != 0) return pid;
    become_child_of(parent);
    ignore_requests_to_stop();
  }
  know_own_forks();
  mark_worker();
  slot(worker).pid.store(getpid(), std::memory_order_relaxed);  // its body may report that it lives
  // The handler registered last runs first; it exits, so none of the parent's handlers runs.
  on_exit(
      [](int code, void* mine) {
        if (!forked_by_worker)
          static_cast<Slot*>(mine)->finish(Slot::kExited, fmt::format("called exit({})", code));
        leave_process(code);
      },
      &slot(worker));
  try {
    if (!options_.cores.empty()) use_cores({options_.cores[static_cast<std::size_t>(worker)]});
    body(worker, WorkerStatus(&slot(worker)));
    slot(worker).finish(Slot::kReturned, "returned from its loop");
  } catch (const DataError& e) {
    end_if_forked_by_worker();
    slot(worker).finish(Slot::kBadData, e.what());
  } catch (const std::exception& e) {
    end_if_forked_by_worker();
    slot(worker).finish(Slot::kThrew, e.what());
  } catch (...) {
    end_if_forked_by_worker();
    slot(worker).finish(Slot::kThrew, "an exception that is not a std::exception");
  }
  leave_process(1);
}

void WorkerGroup::check(int awaited) {
  if (awaited != kNobody) throw_if_interrupted();
  check([awaited](int worker) { return awaited == worker || awaited == kEverybody; });
}

void WorkerGroup::check(const std::function<bool(int)>& awaited) {
  if (failure_) std::rethrow_exception(failure_);
  const auto now = Clock::now();
  const auto passed = std::min<Clock::duration>(now - last_check_, kLongestStretch);
  last_check_ = now;
  for (int w = 0; w < workers(); ++w) {
    const auto text = find_failure(w, awaited(w), passed);
    if (text.empty()) continue;
    const WorkerError error(text, w, slot(w).env.load(), slot(w).step.load());
    const bool bad_data = slot(w).outcome.load() == Slot::kBadData;
    if (!bad_data && restarts_allowed_ && restart(w, error)) continue;
    kill_all();
    failure_ = bad_data ? std::make_exception_ptr(WorkerDataError(text, w, error.env, error.step))
                        : std::make_exception_ptr(error);
    std::rethrow_exception(failure_);
  }
}

pid_t WorkerGroup::pid(int worker) const {
  return has_fork_server() ? slot(worker).pid.load() : pids_[static_cast<std::size_t>(worker)];
}

std::vector<pid_t> WorkerGroup::pids() const {
  std::vector<pid_t> all;
  for (int w = 0; w < workers(); ++w) all.push_back(pid(w));
  return all;
}

// Describes the end of this worker's process; "" while it runs.
std::string WorkerGroup::end_of(int worker) {
  if (has_fork_server()) return end_by_fork_server(worker);
  auto& reaped = watches_[static_cast<std::size_t>(worker)].reaped;
  int status = 0;
  const pid_t ended = waitpid(pid(worker), &status, WNOHANG);
  const bool lost = ended < 0 && errno == ECHILD;  // reaped elsewhere
  reaped = ended == pid(worker) || lost;
  return lost ? "is gone" : reaped ? describe_end(status) : "";
}

std::string WorkerGroup::find_failure(int worker, bool awaited, Clock::duration passed) {
  const auto& own = slot(worker);
  auto& watch = watches_[static_cast<std::size_t>(worker)];
  const auto end = end_of(worker);
  const auto name = fmt::format("worker {} (pid {})", worker, pid(worker));
  const auto outcome = own.outcome.load(std::memory_order_acquire);
  if (outcome == Slot::kThrew || outcome == Slot::kBadData)
    return fmt::format("{} threw while {}: {}", name, own.doing(), own.message);
  if (outcome != Slot::kRunning)
    return fmt::format("{} {} while {}", name, own.message, own.doing());
  if (!end.empty()) return fmt::format("{} {} while {}", name, end, own.doing());

  const auto phase = own.phase.load(std::memory_order_acquire);
  const auto beat = own.beat.load(std::memory_order_relaxed);
  const bool resting = phase == WorkerStatus::kWaiting && !awaited;
  if (beat != watch.beat || resting) {
    watch.beat = beat;
    watch.waited = {};
  } else {
    watch.waited += passed;
  }
  const bool in_reset = phase == WorkerStatus::kConstructing || phase == WorkerStatus::kResetting;
  const auto limit = in_reset ? options_.reset_limit : options_.step_limit;
  if (watch.waited <= limit) return "";
  return fmt::format(
      "{} has been {} for more than {:.1f} s; if this is not a hang, raise sampler.{}", name,
      own.doing(), std::chrono::duration<double>(limit).count(),
      in_reset ? "reset_limit" : "step_limit");
}

// A process that was forked elsewhere has a copy of this object, but the workers are not its own.
void WorkerGroup::kill_all() {
  if (getpid() != owner_) return;
  if (fork_server_pid_ > 0) end_fork_server();
  for (std::size_t w = 0; w < pids_.size(); ++w)
    if (!watches_[w].reaped && pids_[w] > 0) kill(pids_[w], SIGKILL);
  for (std::size_t w = 0; w < pids_.size(); ++w) {
    while (!watches_[w].reaped && waitpid(pids_[w], nullptr, 0) < 0 && errno == EINTR) {
    }
    watches_[w].reaped = true;
  }
  if (!failure_) kill_orphans();  // a failed group has already done so
}

}  // namespace shoal
