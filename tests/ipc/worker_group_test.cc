#include "shoal/ipc/worker_group.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"

namespace shoal {
namespace {

// In shared memory, so that a test can make forks in other processes fail.
struct ForkLimit {
  std::atomic<bool> reached{false};
  std::atomic<int> refusals{0};
};
ForkLimit* fork_limit = nullptr;

}  // namespace
}  // namespace shoal

// Replaces libc's fork() in this program, because system limits do not apply to root.
extern "C" pid_t fork() noexcept {
  if (shoal::fork_limit != nullptr && shoal::fork_limit->reached) {
    ++shoal::fork_limit->refusals;
    errno = EAGAIN;
    return -1;
  }
  static const auto of_libc = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "fork"));
  return of_libc();
}

namespace shoal {
namespace {

using std::chrono::milliseconds;

// The failure report of a group of two; fails the test if there is none for 20 s.
struct Failure {
  std::string text;
  int worker = -1;
  std::int64_t env = -1, step = -1;
};

Failure failure_of(const WorkerGroup::Body& body, const WorkerGroupOptions& options = {}) {
  WorkerGroup group(2, body, options);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    try {
      group.check();
    } catch (const WorkerError& e) {
      for (const pid_t pid : group.pids()) EXPECT_EQ(kill(pid, 0), -1) << "left running";
      EXPECT_THROW(group.check(), WorkerError) << "a failed group stays failed";
      return {e.what(), e.worker, e.env, e.step};
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  ADD_FAILURE() << "no failure was noticed";
  return {};
}

[[noreturn]] void wait_forever() {
  for (;;) pause();
}

// Worker 1 does `action` while it steps environment 5 at step 12.
WorkerGroup::Body second_worker(const std::function<void()>& action) {
  return [action](int worker, WorkerStatus status) {
    if (worker == 0) wait_forever();
    status.enter(WorkerStatus::kStepping, 5, 12);
    action();
  };
}

void expect_second(const Failure& failure, const std::string& words) {
  EXPECT_NE(failure.text.find("worker 1 (pid "), std::string::npos) << failure.text;
  EXPECT_NE(failure.text.find("stepping environment 5 at step 12"), std::string::npos)
      << failure.text;
  EXPECT_NE(failure.text.find(words), std::string::npos) << failure.text;
  EXPECT_EQ(failure.worker, 1);
  EXPECT_EQ(failure.env, 5);
  EXPECT_EQ(failure.step, 12);
}

TEST(WorkerGroupTest, CarriesAnException) {
  expect_second(failure_of(second_worker([] { throw Error("rom {} is missing", "pong"); })),
                "threw while stepping environment 5 at step 12: rom pong is missing");
}

TEST(WorkerGroupTest, CutsALongMessage) {
  expect_second(failure_of(second_worker([] { throw Error("{}", std::string(5000, 'x')); })),
                std::string(1000, 'x'));
}

TEST(WorkerGroupTest, CarriesWhatIsNoStdException) {
  expect_second(failure_of(second_worker([] { throw 42; })), "not a std::exception");
}

TEST(WorkerGroupTest, NamesAnAbort) {
  expect_second(failure_of(second_worker([] { abort(); })), "was killed by SIGABRT while");
}

TEST(WorkerGroupTest, NamesTheSignalThatKilled) {
  expect_second(failure_of(second_worker([] { raise(SIGKILL); })), "was killed by SIGKILL");
}

TEST(WorkerGroupTest, NamesAnExitThatRunsNoHandlers) {
  expect_second(failure_of(second_worker([] { _exit(9); })), "ended with status 9 while");
}

std::atomic<int>* handler_ran = nullptr;

TEST(WorkerGroupTest, CatchesExitBeforeTheParentsHandlersRun) {
  Arena::Plan plan;
  const auto field = plan.add_bytes(sizeof(std::atomic<int>));
  const Arena arena(plan);
  handler_ran = new (arena.data(field)) std::atomic<int>(0);
  ASSERT_EQ(std::atexit([] {
              if (handler_ran) ++*handler_ran;
            }),
            0);
  expect_second(failure_of(second_worker([] { std::exit(3); })), "called exit(3) while");
  EXPECT_EQ(*handler_ran, 0);
  handler_ran = nullptr;
}

TEST(WorkerGroupTest, ABodyThatReturnsIsAFailure) {
  expect_second(failure_of(second_worker([] {})), "returned from its loop");
}

TEST(WorkerGroupTest, NoticesAHangInAStep) {
  const auto failure = failure_of(second_worker(wait_forever), {.step_limit = milliseconds(200)});
  expect_second(failure, "has been stepping environment 5 at step 12 for more than 0.2 s");
}

TEST(WorkerGroupTest, AResetHasALimitOfItsOwn) {
  const auto failure = failure_of(
      [](int worker, WorkerStatus status) {
        status.enter(worker == 0 ? WorkerStatus::kResetting : WorkerStatus::kStepping, 3, 0);
        wait_forever();
      },
      {.step_limit = std::chrono::hours(1), .reset_limit = milliseconds(100)});
  EXPECT_NE(failure.text.find("resetting environment 3 at step 0"), std::string::npos)
      << failure.text;
}

TEST(WorkerGroupTest, ManyShortCallsAndLongWaitsAreNoHang) {
  WorkerGroup group(2,
                    [](int worker, WorkerStatus status) {
                      if (worker == 0)
                        for (std::int64_t t = 0;; ++t) status.enter(WorkerStatus::kStepping, 0, t);
                      status.leave();
                      wait_forever();
                    },
                    {.step_limit = milliseconds(50)});
  const auto end = std::chrono::steady_clock::now() + milliseconds(300);
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_NO_THROW(group.check());
    std::this_thread::sleep_for(milliseconds(5));
  }
}

TEST(WorkerGroupTest, AWorkerThatDoesNotBeginTheStepWaitedForIsFrozen) {
  WorkerGroup group(2,
                    [](int, WorkerStatus status) {
                      status.leave();
                      wait_forever();
                    },
                    {.step_limit = milliseconds(100)});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::string text;
  while (text.empty() && std::chrono::steady_clock::now() < deadline) {
    try {
      group.check(/*awaited=*/1);
    } catch (const WorkerError& e) {
      text = e.what();
      EXPECT_EQ(e.worker, 1) << "nobody waited for worker 0";
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_NE(text.find("waiting for more than 0.1 s"), std::string::npos) << text;
  EXPECT_NE(text.find("sampler.step_limit"), std::string::npos) << text;
}

// Workers that count their processes in shared memory, and die or continue as told.
struct Lives {
  std::atomic<int> begun[2]{}, died[2]{};
  std::atomic<bool> die[2]{};
  ForkLimit fork_limit;
};

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() : field_(plan_.add_bytes(sizeof(Lives))), arena_(plan_) {
    lives_ = new (arena_.data(field_)) Lives;
    fork_limit = &lives_->fork_limit;
  }
  ~RestartTest() override { fork_limit = nullptr; }
  WorkerGroupOptions options() {
    return {.step_limit = milliseconds(300),
            .on_death = OnDeath::kRestart,
            .before_restart = [this](int worker, const WorkerError& death) {
              deaths_.emplace_back(death.what());
              ++lives_->died[worker];
            }};
  }
  // `end`: a worker's action when it is told to die.
  WorkerGroup::Body body(const std::function<void()>& end) {
    return [this, end](int worker, WorkerStatus status) {
      EXPECT_EQ(status.past_lives(), lives_->begun[worker]++);
      status.enter(WorkerStatus::kStepping, 5, 12);
      while (!lives_->die[worker]) status.enter(WorkerStatus::kStepping, 5, 12);
      lives_->die[worker] = false;
      end();
    };
  }
  void await(const std::atomic<int>& number, int wanted, WorkerGroup& group) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (number != wanted) {
      group.check();
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
  }

  Arena::Plan plan_;
  Arena::Field field_;
  Arena arena_;
  Lives* lives_;
  std::vector<std::string> deaths_;
};

TEST_F(RestartTest, WhateverEndedIt) {
  const std::vector<std::pair<std::function<void()>, std::string>> ends{
      {[] { throw Error("no rom"); }, "threw while stepping environment 5 at step 12: no rom"},
      {[] { std::exit(3); }, "called exit(3) while stepping"},
      {[] { raise(SIGKILL); }, "SIGKILL"},
      {[] { wait_forever(); }, "for more than 0.3 s"}};
  for (const auto& [end, words] : ends) {
    new (lives_) Lives;
    deaths_.clear();
    std::vector<pid_t> before, after;
    {
      WorkerGroup group(2, body(end), options());
      await(lives_->begun[0], 1, group);
      await(lives_->begun[1], 1, group);
      group.allow_restarts();
      before = group.pids();
      lives_->die[1] = true;
      await(lives_->begun[1], 2, group);
      EXPECT_EQ(group.restarts(), 1);
      after = group.pids();
    }
    ASSERT_EQ(deaths_.size(), 1u);
    EXPECT_NE(deaths_[0].find(words), std::string::npos) << deaths_[0];
    EXPECT_NE(deaths_[0].find("worker 1 (pid "), std::string::npos) << deaths_[0];
    EXPECT_EQ(lives_->begun[0], 1) << "the other one went on";
    EXPECT_EQ(before[0], after[0]);
    EXPECT_NE(before[1], after[1]);
    for (const pid_t pid : after) EXPECT_EQ(kill(pid, 0), -1) << "left running";
  }
}

TEST_F(RestartTest, WhoCannotEvenBeginFails) {
  WorkerGroup group(2, body([] { throw Error("no rom"); }), options());
  lives_->die[1] = true;
  EXPECT_THROW(await(lives_->begun[1], 2, group), WorkerError);
  EXPECT_TRUE(deaths_.empty());
}

TEST_F(RestartTest, TheFifthDeathWithinAMinuteIsOneTooMany) {
  WorkerGroup group(2, body([] { throw Error("no rom"); }), options());
  await(lives_->begun[1], 1, group);
  group.allow_restarts();
  for (int life = 2; life <= 5; ++life) {
    lives_->die[1] = true;
    await(lives_->begun[1], life, group);
  }
  lives_->die[1] = true;
  EXPECT_THROW(await(lives_->begun[1], 6, group), WorkerError);
  EXPECT_EQ(deaths_.size(), 4u);
}

TEST_F(RestartTest, TheFifthInARowThatCompletesNoStepIsOneTooMany) {
  auto rarely = options();
  rarely.death_window = milliseconds(0);
  WorkerGroup group(
      1,
      [this](int, WorkerStatus status) {
        const int life = lives_->begun[0]++;
        if (life < 10) status.enter(WorkerStatus::kStepping, 5, 12);
        status.enter(WorkerStatus::kResetting, 5, 12);
        if (life == 0) wait_forever();
        throw Error("no level");
      },
      rarely);
  await(lives_->begun[0], 1, group);
  group.allow_restarts();
  kill(group.pids()[0], SIGKILL);
  EXPECT_THROW(await(lives_->begun[0], 100, group), WorkerError);
  EXPECT_EQ(lives_->begun[0], 15) << "ten with a step, five without";
}

// The pid of a reaped process may belong to another one, which must not be killed.
TEST_F(RestartTest, AfterAFailedForkTheOldPidIsForgotten) {
  auto patient = options();
  patient.step_limit = std::chrono::seconds(20);
  WorkerGroup group(2, body([] { raise(SIGKILL); }), patient);
  await(lives_->begun[0], 1, group);
  await(lives_->begun[1], 1, group);
  group.allow_restarts();
  lives_->fork_limit.reached = true;
  lives_->die[1] = true;
  await(lives_->died[1], 1, group);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (lives_->fork_limit.refusals < 2) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  EXPECT_EQ(group.pids()[1], 0);
  lives_->fork_limit.reached = false;
  await(lives_->begun[1], 2, group);
  EXPECT_GT(group.pids()[1], 0);
  EXPECT_EQ(group.restarts(), 1) << "the fork was tried again";
}

TEST_F(RestartTest, WithoutTheProcessThatForksThemItFails) {
  WorkerGroup group(2, body([] {}), options());
  await(lives_->begun[0], 1, group);
  await(lives_->begun[1], 1, group);
  group.allow_restarts();
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", getpid()));
  pid_t fork_server = 0;
  ASSERT_TRUE(file >> fork_server);
  kill(fork_server, SIGKILL);
  std::string text;
  try {
    await(lives_->begun[1], 2, group);
  } catch (const WorkerError& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("the fork server was killed by SIGKILL"), std::string::npos) << text;
}

TEST(WorkerGroupTest, LeavesNothingRunning) {
  std::vector<pid_t> pids;
  {
    const WorkerGroup group(3, [](int, WorkerStatus) { wait_forever(); });
    pids = group.pids();
    ASSERT_EQ(pids.size(), 3u);
    for (const pid_t pid : pids) EXPECT_EQ(kill(pid, 0), 0);
  }
  for (const pid_t pid : pids) {
    EXPECT_EQ(kill(pid, 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
}

TEST(WorkerGroupTest, SignalsOfATerminalDoNotReachWorkers) {
  Arena::Plan plan;
  const auto field = plan.add_bytes(sizeof(std::atomic<int>));
  const Arena arena(plan);
  auto* survived = new (arena.data(field)) std::atomic<int>(0);
  const WorkerGroup group(1, [=](int, WorkerStatus) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) raise(number);
    *survived = 1;
    wait_forever();
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (*survived == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(*survived, 1);
}

// The workers' parent is a child of this test and is killed; its orphans are reparented to this
// test, which reaps them.
TEST(WorkerGroupTest, WorkersDieWithTheirParent) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const WorkerGroup group(2, [&](int, WorkerStatus) {
      const pid_t own = getpid();
      if (write(ready[1], &own, sizeof(own)) == sizeof(own)) wait_forever();
    });
    wait_forever();
  }
  pid_t workers[2] = {};
  for (pid_t& worker : workers)
    ASSERT_EQ(read(ready[0], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  for (const pid_t worker : workers) {
    int status = 0;
    ASSERT_EQ(waitpid(worker, &status, 0), worker);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  while (waitpid(-1, nullptr, 0) > 0) {  // the reaper of that parent
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  close(ready[0]);
  close(ready[1]);
}

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
    program = pid;
  }
  // Starts a daemon: its parent is gone, and it has its own session. It is `child`.
  void start_daemon() {
    const pid_t between = fork();
    if (between == 0) {
      setsid();
      if (fork() != 0) _exit(0);
      child = getpid();
      wait_forever();
    }
    waitpid(between, nullptr, 0);
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
  DescendantsTest() : field_(plan_.add_bytes(sizeof(Started))), arena_(plan_) {
    started_ = new (arena_.data(field_)) Started;
    prctl(PR_SET_CHILD_SUBREAPER, 0);  // orphans are not reparented here
  }
  static bool comes_true(const std::function<bool()>& what) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!what() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(2));
    return what();
  }

  Arena::Plan plan_;
  Arena::Field field_;
  Arena arena_;
  Started* started_;
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

TEST(WorkerGroupTest, AWaitIsGivenUpOnceTheGraceIsOver) {
  WorkerGroup group(1, [](int, WorkerStatus) { wait_forever(); });
  set_stop_grace(milliseconds(0));
  request_stop(SIGTERM);
  EXPECT_NO_THROW(group.check()) << "nobody waits";
  EXPECT_THROW(group.check(0), Interrupted);
  EXPECT_THROW(group.check(WorkerGroup::kEverybody), Interrupted);
  request_stop(0);
  set_stop_grace(kStopGrace);
}

TEST(WorkerGroupTest, PinsWorkersToTheirCores) {
  const int core = allowed_cores().back();
  const auto failure = failure_of(
      [core](int worker, WorkerStatus) {
        if (worker == 0) wait_forever();
        throw Error("runs on {} core, {}", allowed_cores().size(),
                    allowed_cores()[0] == core ? "the right one" : "another");
      },
      {.cores = {core, core}});
  EXPECT_NE(failure.text.find("runs on 1 core, the right one"), std::string::npos) << failure.text;
}

TEST(WorkerGroupTest, RefusesBadOptions) {
  const auto idle = [](int, WorkerStatus) { wait_forever(); };
  EXPECT_THROW(WorkerGroup(0, idle), Error);
  EXPECT_THROW(WorkerGroup(2, idle, {.cores = {allowed_cores()[0]}}), Error);
  EXPECT_THROW(WorkerGroup(1, idle, {.cores = {-1}}), Error);
  EXPECT_THROW(WorkerGroup(1, idle, {.cores = {100'000}}), Error);
}

TEST(WorkerGroupTest, RefusesToForkOffTheMainThread) {
  std::string text;
  std::thread([&] {
    try {
      WorkerGroup(1, [](int, WorkerStatus) { wait_forever(); });
    } catch (const Error& e) {
      text = e.what();
    }
  }).join();
  EXPECT_NE(text.find("not the main thread"), std::string::npos) << text;
}

TEST(WorkerGroupTest, RefusesToForkOnceCudaHasAContext) {
  EXPECT_NO_THROW(prepare_to_fork());
  void* cuda = dlopen(SHOAL_FAKE_LIBCUDA, RTLD_NOW);
  ASSERT_NE(cuda, nullptr) << dlerror();
  auto& active = *static_cast<int*>(dlsym(cuda, "fake_active"));
  auto& status = *static_cast<int*>(dlsym(cuda, "fake_status"));
  EXPECT_NO_THROW(prepare_to_fork()) << "a driver without a context";
  active = 1;
  EXPECT_THROW(prepare_to_fork(), Error);
  status = 3;  // CUDA_ERROR_NOT_INITIALIZED
  EXPECT_NO_THROW(prepare_to_fork());
  dlclose(cuda);
}

}  // namespace
}  // namespace shoal
