#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "src/ipc/child_process.h"
#include "src/ipc/descendants.h"
#include "src/ipc/waiting.h"
#include "src/ipc/worker_slot.h"

// The fork server of a group with OnDeath::kRestart: a process that only forks workers, reaps them,
// and reports how they ended.
namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks{20};  // between polls of the fork server
constexpr std::chrono::seconds kLongestEnd{5};          // from SIGKILL to the end of a process
constexpr int kMostDeaths = 5;  // within `death_window`, or of one worker without a completed step

}  // namespace

struct WorkerGroup::ForkServer {
  alignas(64) Word calls{0};  // incremented for every request: to fork a worker, or to end
  alignas(64) Word ends{0};
};

Arena::Field WorkerGroup::plan_fork_server(Arena::Plan& plan) {
  return plan.add_bytes(sizeof(ForkServer));
}

WorkerGroup::ForkServer& WorkerGroup::fork_server() const {
  return *reinterpret_cast<ForkServer*>(arena_.data(fork_server_));
}

void WorkerGroup::start_fork_server(const Body& body) {
  new (&fork_server()) ForkServer;
  const pid_t parent = getpid();
  {
    const SignalsBlocked blocked;
    fork_server_pid_ = fork();
    if (fork_server_pid_ < 0) throw Error("cannot fork the fork server: {}", std::strerror(errno));
    if (fork_server_pid_ > 0) return;
    become_child_of(parent);
    ignore_requests_to_stop();
  }
  serve_forks(body);
}

// Runs in the fork server; never returns.
void WorkerGroup::serve_forks(const Body& body) {
  auto& words = fork_server();
  for (;;) {
    const auto seen = words.calls.load(std::memory_order_acquire);
    if (words.ends.load(std::memory_order_acquire) != 0) break;
    for (int w = 0; w < workers(); ++w) {
      auto& of = slot(w);
      const auto wanted = of.wanted.load(std::memory_order_acquire);
      if (of.started.load(std::memory_order_relaxed) == wanted) continue;
      const pid_t pid = start(w, body);
      if (pid < 0) continue;  // try again later
      of.pid.store(pid, std::memory_order_relaxed);
      of.started.store(wanted, std::memory_order_release);
    }
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      for (int w = 0; w < workers(); ++w) {
        auto& of = slot(w);
        if (of.pid.load(std::memory_order_relaxed) != pid) continue;
        of.status.store(status, std::memory_order_relaxed);
        of.ended.store(of.started.load(std::memory_order_relaxed), std::memory_order_release);
      }
    }
    futex_wait(words.calls, seen, kBetweenLooks);
  }
  for (int w = 0; w < workers(); ++w) {
    const pid_t pid = slot(w).pid.load();
    if (slot(w).ended.load() != slot(w).started.load() && pid > 0) kill(pid, SIGKILL);
  }
  while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  _exit(0);
}

std::string WorkerGroup::end_by_fork_server(int worker) {
  int status = 0;
  if (waitpid(fork_server_pid_, &status, WNOHANG) == fork_server_pid_) {
    restarts_allowed_ = false;
    fork_server_pid_ = -1;  // all workers have died with it
    return fmt::format("is gone, because the fork server {}", describe_end(status));
  }
  const auto& of = slot(worker);
  const bool ended = of.ended.load(std::memory_order_acquire) == of.wanted.load();
  return ended ? describe_end(of.status.load(std::memory_order_relaxed)) : "";
}

// A worker that hangs whenever it begins does not die often, but never completes a step.
bool WorkerGroup::dies_too_often(int worker) {
  const auto now = Clock::now();
  std::erase_if(deaths_, [&](auto then) { return now - then > options_.death_window; });
  deaths_.push_back(now);
  auto& idle = watches_[static_cast<std::size_t>(worker)].idle_lives;
  idle = slot(worker).stepped.load(std::memory_order_relaxed) ? 0 : idle + 1;
  return std::ssize(deaths_) >= kMostDeaths || idle >= kMostDeaths;
}

bool WorkerGroup::await_end(int worker) const {
  const auto& of = slot(worker);
  const auto deadline = Clock::now() + kLongestEnd;
  while (of.ended.load(std::memory_order_acquire) != of.wanted.load()) {
    if (Clock::now() > deadline) return false;
    usleep(1000);
  }
  return true;
}

// False if the worker must not be restarted.
bool WorkerGroup::restart(int worker, const WorkerError& death) {
  auto& of = slot(worker);
  if (dies_too_often(worker)) return false;
  // A worker that is not started yet has pid 0, which would be this process's whole group.
  const pid_t present = pid(worker);
  if (of.ended.load(std::memory_order_acquire) != of.wanted.load() && present > 0)
    kill(present, SIGKILL);
  if (!await_end(worker)) return false;
  kill_orphans();
  if (options_.before_restart) options_.before_restart(worker, death);
  auto& watch = watches_[static_cast<std::size_t>(worker)];
  watch = {.idle_lives = watch.idle_lives};
  of.begin_anew();
  fork_server().calls.fetch_add(1, std::memory_order_release);
  futex_wake_all(fork_server().calls);
  ++restarts_;
  return true;
}

void WorkerGroup::end_fork_server() {
  fork_server().ends.store(1, std::memory_order_release);
  fork_server().calls.fetch_add(1, std::memory_order_release);
  futex_wake_all(fork_server().calls);
  const auto deadline = Clock::now() + kLongestEnd;
  while (waitpid(fork_server_pid_, nullptr, WNOHANG) == 0) {
    // If the fork server does not respond, killing it kills the workers, too.
    if (Clock::now() > deadline) kill(fork_server_pid_, SIGKILL);
    usleep(1000);
  }
  fork_server_pid_ = -1;
}

}  // namespace shoal
