#include "shoal/ipc/worker_group.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "tests/ipc/failure_of.h"
#include "tests/support/shared.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;

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
  const testing::Shared<std::atomic<int>> shared;
  handler_ran = &*shared;
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
                    {.step_limit = milliseconds(1000)});
  const auto end = std::chrono::steady_clock::now() + milliseconds(2000);
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
  const testing::Shared<std::atomic<int>> survived;
  const WorkerGroup group(1, [&](int, WorkerStatus) {
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
