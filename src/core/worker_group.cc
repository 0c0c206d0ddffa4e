#include "shoal/core/worker_group.h"

#include <sched.h>
#include <sys/prctl.h>
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
#include "src/core/worker_slot.h"

namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;

const WorkerGroupOptions& checked(int workers, const WorkerGroupOptions& options) {
  require(workers >= 1, "a group of {} workers: at least 1 is needed", workers);
  require_fork_is_safe();
  if (options.cores.empty()) return options;
  require(options.cores.size() == static_cast<std::size_t>(workers),
          "{} cores are given for {} workers: one each is needed, or none at all",
          options.cores.size(), workers);
  const auto allowed = allowed_cores();
  for (const int core : options.cores)
    require(std::ranges::count(allowed, core) == 1,
            "worker core {} is not among the {} cores this process may run on ({} to {})", core,
            allowed.size(), allowed.front(), allowed.back());
  return options;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  require(sched_setaffinity(0, sizeof(set), &set) == 0, "core {}: {}", core, std::strerror(errno));
}

// No signal reaches a child before it has chosen how to take it: until then it has its parent's
// handlers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// Time runs against a worker in stretches of at most this between two looks at it: what lies
// between them otherwise is the parent's own work, or all processes were suspended together
// (Ctrl-Z).
constexpr std::chrono::milliseconds kLongestStretch{200};

void become_child_of(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP}) signal(ignored, SIG_IGN);
  for (const int ordinary : {SIGPIPE, SIGCHLD}) signal(ordinary, SIG_DFL);
}

// Ends the child: without the parent's destructors and exit handlers, but with what it has printed.
[[noreturn]] void leave_process(int code) {
  std::fflush(stdout);
  _exit(code);
}

}  // namespace

WorkerGroup::WorkerGroup(int workers, const Body& body, const WorkerGroupOptions& options)
    : options_(checked(workers, options)),
      slots_(plan_.add({workers}, {.dtype = DType::kUInt8, .shape = {sizeof(Slot)}})),
      arena_(plan_) {
  for (int w = 0; w < workers; ++w) new (&slot(w)) Slot;
  std::fflush(nullptr);  // what is buffered now would be printed by the children too
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
    watches_.push_back({.beat = 0});
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
  }
  // The handler registered last runs first, so none of the parent's runs here.
  on_exit(
      [](int code, void* mine) {
        static_cast<Slot*>(mine)->finish(Slot::kExited, fmt::format("called exit({})", code));
        leave_process(code);
      },
      &slot(worker));
  try {
    if (!options_.cores.empty()) pin_to(options_.cores[static_cast<std::size_t>(worker)]);
    body(worker, WorkerStatus(&slot(worker)));
    slot(worker).finish(Slot::kReturned, "returned from its loop");
  } catch (const std::exception& e) {
    slot(worker).finish(Slot::kThrew, e.what());
  } catch (...) {
    slot(worker).finish(Slot::kThrew, "an exception that is no std::exception");
  }
  leave_process(1);
}

void WorkerGroup::check(int awaited) {
  if (failure_) std::rethrow_exception(failure_);
  const auto now = Clock::now();
  const auto passed = std::min<Clock::duration>(now - last_check_, kLongestStretch);
  last_check_ = now;
  for (int w = 0; w < static_cast<int>(pids_.size()); ++w) {
    const auto text = find_failure(w, awaited == w || awaited == kEverybody, passed);
    if (text.empty()) continue;
    kill_all();
    failure_ =
        std::make_exception_ptr(WorkerError(text, w, slot(w).env.load(), slot(w).step.load()));
    std::rethrow_exception(failure_);
  }
}

std::string WorkerGroup::find_failure(int worker, bool awaited, Clock::duration passed) {
  const auto& own = slot(worker);
  auto& watch = watches_[static_cast<std::size_t>(worker)];
  const pid_t pid = pids_[static_cast<std::size_t>(worker)];
  int status = 0;
  const pid_t ended = waitpid(pid, &status, WNOHANG);
  const bool lost = ended < 0 && errno == ECHILD;  // reaped by somebody else
  watch.reaped = ended == pid || lost;
  const auto name = fmt::format("worker {} (pid {})", worker, pid);
  const auto outcome = own.outcome.load(std::memory_order_acquire);
  if (outcome == Slot::kThrew)
    return fmt::format("{} threw while {}: {}", name, own.doing(), own.message);
  if (outcome != Slot::kRunning)
    return fmt::format("{} {} while {}", name, own.message, own.doing());
  if (watch.reaped)
    return fmt::format("{} {} while {}", name, lost ? "is gone" : describe_end(status),
                       own.doing());

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
  return fmt::format("{} has been {} for more than {:.1f} s; if that is no hang, raise sampler.{}",
                     name, own.doing(), std::chrono::duration<double>(limit).count(),
                     in_reset ? "reset_limit" : "step_limit");
}

void WorkerGroup::kill_all() {
  for (std::size_t w = 0; w < pids_.size(); ++w)
    if (!watches_[w].reaped) kill(pids_[w], SIGKILL);
  for (std::size_t w = 0; w < pids_.size(); ++w) {
    while (!watches_[w].reaped && waitpid(pids_[w], nullptr, 0) < 0 && errno == EINTR) {
    }
    watches_[w].reaped = true;
  }
}

}  // namespace shoal
