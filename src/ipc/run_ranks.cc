#include "shoal/ipc/run_ranks.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/ipc/rank_exchange.h"
#include "shoal/ipc/worker_group.h"
#include "src/ipc/child_process.h"
#include "src/ipc/worker_slot.h"

namespace shoal {

namespace {

using namespace std::chrono_literals;

constexpr auto kLookEvery = 20ms;
// Time limit for the other ranks to end after the first one has.
constexpr auto kLongestLeave = 60s;

std::atomic<int> signal_to_pass_on{0};

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP};

// SIGHUP is last: it stays ignored if it was at the start, as by nohup.
std::span<const int> forwarded_signals() {
  return std::span(kForwarded).first(std::size(kForwarded) - (hangup_is_ignored() ? 1 : 0));
}

// While it lives, forwards signals of this process to rank 0, and lets it see how children end: a
// program may ignore SIGCHLD, or inherit that.
class SignalsPassedOn {
 public:
  SignalsPassedOn() {
    sigaction(SIGCHLD, nullptr, &of_children_);
    if (of_children_.sa_handler == SIG_IGN) std::signal(SIGCHLD, SIG_DFL);
    signal_to_pass_on = 0;
    struct sigaction action {};
    action.sa_handler = [](int number) { signal_to_pass_on = number; };
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < forwarded_signals().size(); ++i)
      sigaction(forwarded_signals()[i], &action, &before_[i]);
  }
  ~SignalsPassedOn() {
    for (std::size_t i = 0; i < forwarded_signals().size(); ++i)
      sigaction(forwarded_signals()[i], &before_[i], nullptr);
    if (of_children_.sa_handler == SIG_IGN) sigaction(SIGCHLD, &of_children_, nullptr);
  }

 private:
  struct sigaction before_[std::size(kForwarded)], of_children_;
};

// Rank 0, until its body sets handlers: a signal that it ignored, even for a moment, would be lost.
void exit_at_signals() {
  for (const int number : forwarded_signals())
    std::signal(number, [](int caught) { exit_suddenly(128 + caught); });
}

// A rank's exit report in shared memory; written by the rank.
struct RankEnd {
  enum Kind : std::uint32_t { kNone, kReturned, kMistake, kThrew };
  std::atomic<std::uint32_t> kind{kNone};  // written last, with release
  int result = 0;
  char text[4096] = {};

  void tell(Kind how, const char* what) {
    std::strncpy(text, what, sizeof text - 1);
    kind.store(how, std::memory_order_release);
  }
};

class Processes {
 public:
  Processes(int ranks, const std::function<int(int)>& body)
      : ends_(plan_.add_bytes(static_cast<std::size_t>(ranks) * sizeof(RankEnd))), arena_(plan_) {
    for (int r = 0; r < ranks; ++r) new (&end(r)) RankEnd;
    std::fflush(nullptr);  // otherwise each rank would print the buffered output
    try {
      for (int r = 0; r < ranks; ++r) start(r, ranks, body);
    } catch (...) {
      end_all();
      throw;
    }
  }
  ~Processes() { end_all(); }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int wait() {
    auto patience = std::chrono::steady_clock::time_point::max();
    for (;;) {
      if (const int number = signal_to_pass_on.exchange(0)) pass_on(number);
      const auto before = running();
      for (int r = 0; r < ranks(); ++r) look_at(r);
      if (running() == 0) return end(0).result;
      if (stopped_) return 128 + stopped_;
      const auto now = std::chrono::steady_clock::now();
      if (running() < before && patience > now + kLongestLeave) patience = now + kLongestLeave;
      if (now > patience) name_the_late();
      std::this_thread::sleep_for(kLookEvery);
    }
  }

 private:
  void end_all() {
    for (const auto pid : pids_)
      if (pid > 0) kill(pid, SIGKILL);
    for (const auto pid : pids_)
      while (pid > 0 && waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
  }

  int ranks() const { return static_cast<int>(pids_.size()); }
  RankEnd& end(int rank) { return reinterpret_cast<RankEnd*>(arena_.data(ends_))[rank]; }
  std::ptrdiff_t running() const {
    return std::ranges::count_if(pids_, [](pid_t p) { return p > 0; });
  }

  void start(int rank, int ranks, const std::function<int(int)>& body) {
    const pid_t parent = getpid();
    {
      const SignalsBlocked blocked;
      const pid_t pid = fork();
      require(pid >= 0,
              "rank {} of {} could not be forked: {}; use fewer ranks or a higher `ulimit -u`",
              rank, ranks, std::strerror(errno));
      if (pid > 0) {
        pids_.push_back(pid);
        return;
      }
      become_child_of(parent);
      if (rank == 0)
        exit_at_signals();
      else
        ignore_requests_to_stop();
    }
    pids_.clear();
    auto& own = end(rank);
    try {
      own.result = body(rank);
      own.tell(RankEnd::kReturned, "");
    } catch (const Interrupted& e) {
      std::fflush(nullptr);
      _exit(128 + e.signal);
    } catch (const Error& e) {
      own.tell(RankEnd::kMistake, e.what());
    } catch (const std::exception& e) {
      own.tell(RankEnd::kThrew, e.what());
    } catch (...) {
      own.tell(RankEnd::kThrew, "an exception that is not a std::exception");
    }
    std::fflush(nullptr);
    _exit(0);
  }

  void pass_on(int number) {
    if (pids_[0] <= 0) return;
    kill(pids_[0], number);
    passed_on_ = number;
  }

  // Throws if this rank has failed.
  void look_at(int rank) {
    auto& pid = pids_[static_cast<std::size_t>(rank)];
    int status = 0;
    if (pid <= 0 || waitpid(pid, &status, WNOHANG) != pid) return;
    const auto former = pid;
    pid = 0;
    const auto& own = end(rank);
    const auto kind = own.kind.load(std::memory_order_acquire);
    if (kind == RankEnd::kReturned) return;
    // A signal may end a rank at once; one from a terminal reaches the rank before this process has
    // handled its own.
    const int asked = passed_on_ != 0 ? passed_on_ : signal_to_pass_on.load();
    if (kind == RankEnd::kNone && asked != 0 && WIFEXITED(status) &&
        WEXITSTATUS(status) == 128 + asked) {
      stopped_ = asked;
      return;
    }
    const auto prefix = rank == 0 ? std::string() : fmt::format("rank {}: ", rank);
    if (kind == RankEnd::kMistake) throw Error("{}{}", prefix, static_cast<const char*>(own.text));
    if (kind == RankEnd::kThrew) throw RankError(prefix + own.text, rank);
    throw RankError(fmt::format("rank {} (pid {}) {}", rank, former, describe_end(status)), rank);
  }

  [[noreturn]] void name_the_late() const {
    for (int r = 0; r < ranks(); ++r)
      if (pids_[static_cast<std::size_t>(r)] > 0)
        throw RankError(fmt::format("rank {} did not exit within {} s of the others", r,
                                    std::chrono::seconds(kLongestLeave).count()),
                        r);
    throw RankError("all ranks have ended", 0);
  }

  SignalsPassedOn signals_;  // installed before the ranks are forked
  Arena::Plan plan_;
  Arena::Field ends_;
  Arena arena_;
  std::vector<pid_t> pids_;  // 0: it has ended
  int passed_on_ = 0, stopped_ = 0;
};

}  // namespace

int run_ranks(int ranks, const std::function<int(int)>& body) {
  require(ranks >= 1, "{} ranks; expected at least 1", ranks);
  prepare_to_fork();
  return Processes(ranks, body).wait();
}

}  // namespace shoal
