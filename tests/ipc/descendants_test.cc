#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "tests/ipc/failure_of.h"
#include "tests/support/shared.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;

// Processes that a worker's environment starts: by fork(), by fork() in that child, and by exec.
struct Started {
  std::atomic<pid_t> child{0}, grandchild{0}, program{0};

  void start() {
    if (fork() == 0) {
      child = getpid();
      if (fork() == 0) grandchild = getpid();
      wait_forever();
    }
    pid_t pid = 0;
    std::string name = "sleep", long_time = "1000";
    char* const argv[] = {name.data(), long_time.data(), nullptr};
    EXPECT_EQ(posix_spawnp(&pid, "sleep", nullptr, nullptr, argv, environ), 0);
    // Before its environment can be read, it has no mark.
    while (std::ifstream(fmt::format("/proc/{}/environ", pid)).peek() == EOF)
      std::this_thread::yield();
    program = pid;
  }
  // Starts a daemon: its parent is gone, and it has its own session. It is `child`, which is set
  // once that parent has been reaped: a worker killed before would leave it to the main process.
  void start_daemon() {
    const pid_t between = fork();
    if (between == 0) {
      setsid();
      const pid_t daemon = fork();
      if (daemon == 0) wait_forever();
      grandchild = daemon;
      _exit(0);
    }
    waitpid(between, nullptr, 0);
    child = grandchild.load();
  }
  bool all_there() const { return child != 0 && grandchild != 0 && program != 0; }
  bool all_gone() const { return !runs(child) && !runs(grandchild) && !runs(program); }
  static bool runs(pid_t pid) {  // a zombie does not run
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    const std::string text((std::istreambuf_iterator<char>(stat)), {});
    const auto state = text.rfind(") ");
    return state != std::string::npos && text[state + 2] != 'Z';
  }
};

class DescendantsTest : public ::testing::Test {
 protected:
  DescendantsTest() { prctl(PR_SET_CHILD_SUBREAPER, 0); }  // orphans are not reparented here
  static bool comes_true(const std::function<bool()>& what) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!what() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(2));
    return what();
  }

  testing::Shared<Started> started_;
};

TEST_F(DescendantsTest, AreGoneWithTheGroup) {
  {
    const WorkerGroup group(1, [this](int, WorkerStatus) {
      started_->start();
      wait_forever();
    });
    ASSERT_TRUE(comes_true([this] { return started_->all_there(); }));
  }
  EXPECT_TRUE(started_->all_gone());
}

TEST_F(DescendantsTest, AreGoneWithAWorkerThatDies) {
  failure_of([this](int worker, WorkerStatus) {
    if (worker == 0) wait_forever();
    started_->start();
    while (!started_->all_there()) std::this_thread::yield();
    raise(SIGKILL);
  });
  EXPECT_TRUE(started_->all_gone());
}

TEST_F(DescendantsTest, AreGoneWithTheMainProcessWhenThatIsKilled) {
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const WorkerGroup group(1, [this](int, WorkerStatus) {
      started_->start();
      wait_forever();
    });
    wait_forever();
  }
  ASSERT_TRUE(comes_true([this] { return started_->all_there(); }));
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(comes_true([this] { return started_->all_gone(); }));
}

TEST_F(DescendantsTest, OfALivingWorkerAreLeftAlone) {
  const WorkerGroup first(1, [this](int, WorkerStatus) {
    started_->start();
    wait_forever();
  });
  ASSERT_TRUE(comes_true([this] { return started_->all_there(); }));
  {
    const WorkerGroup second(1, [](int, WorkerStatus) { wait_forever(); });
  }
  EXPECT_TRUE(Started::runs(started_->child));
  EXPECT_TRUE(Started::runs(started_->grandchild));
  EXPECT_TRUE(Started::runs(started_->program));
}

// Two workers; worker 0's first process starts a daemon.
class DaemonTest : public DescendantsTest {
 protected:
  WorkerGroup make_group() {
    return WorkerGroup(2,
                       [this](int worker, WorkerStatus status) {
                         if (worker == 0 && status.past_lives() == 0) started_->start_daemon();
                         wait_forever();
                       },
                       {.on_death = OnDeath::kRestart});
  }
  bool comes() const {
    return comes_true([this] { return started_->child != 0; });
  }
  // Kills a worker and waits for its next process.
  static void replace(int worker, WorkerGroup& group) {
    const auto at = static_cast<std::size_t>(worker);
    ASSERT_TRUE(comes_true([&] { return group.pids()[at] != 0; }));
    const auto before = group.pids()[at];
    kill(before, SIGKILL);
    EXPECT_TRUE(comes_true([&] {
      group.check();
      return group.pids()[at] != before && group.pids()[at] != 0;
    }));
  }
};

TEST_F(DaemonTest, LivesAsLongAsItsOwnWorker) {
  auto group = make_group();
  ASSERT_TRUE(comes());
  group.allow_restarts();
  replace(1, group);
  EXPECT_TRUE(Started::runs(started_->child));
  {
    const WorkerGroup other(1, [](int, WorkerStatus) { wait_forever(); });
  }
  EXPECT_TRUE(Started::runs(started_->child));
  replace(0, group);
  EXPECT_FALSE(Started::runs(started_->child));
}

TEST_F(DaemonTest, IsGoneWithTheGroup) {
  {
    const auto group = make_group();
    ASSERT_TRUE(comes());
  }
  EXPECT_FALSE(Started::runs(started_->child));
}

TEST_F(DaemonTest, IsGoneWithTheMainProcessWhenThatIsKilled) {
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const auto group = make_group();
    wait_forever();
  }
  ASSERT_TRUE(comes());
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(comes_true([this] { return !Started::runs(started_->child); }));
}

// In a container, orphans are reparented to a main process with pid 1.
TEST_F(DaemonTest, MayBeAChildOfTheMainProcess) {
  {  // otherwise the reaper would become one, too
    const WorkerGroup first(1, [](int, WorkerStatus) { wait_forever(); });
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  {
    const auto group = make_group();
    ASSERT_TRUE(comes());
  }
  EXPECT_FALSE(Started::runs(started_->child));
  EXPECT_EQ(waitpid(started_->child, nullptr, WNOHANG), started_->child);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// A forked child that returns from an environment, throws or calls exit() must not act as a second
// worker, and its end is not the worker's.
TEST_F(DescendantsTest, AreNoWorkers) {
  auto& went_on = started_->program;
  WorkerGroup group(1, [&](int, WorkerStatus status) {
    for (const auto& end : std::vector<std::function<void()>>{[] {}, [] { throw Error("no rom"); },
                                                              [] { std::exit(3); }}) {
      status.enter(WorkerStatus::kStepping, 5, 12);
      const pid_t child = fork();
      if (child == 0) {
        end();
        status.leave();
        went_on = getpid();
      }
      waitpid(child, nullptr, 0);
    }
    started_->child = getpid();
    wait_forever();
  });
  ASSERT_TRUE(comes_true([this] { return started_->child != 0; }));
  EXPECT_NO_THROW(group.check());
  EXPECT_EQ(went_on, 0);
}

}  // namespace
}  // namespace shoal
