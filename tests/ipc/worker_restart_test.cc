#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "tests/ipc/failure_of.h"
#include "tests/support/shared.h"

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

// Workers that count their processes in shared memory, and die or continue as told.
struct Lives {
  std::atomic<int> begun[2]{}, died[2]{};
  std::atomic<bool> die[2]{};
  ForkLimit fork_limit;
};

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() { fork_limit = &lives_->fork_limit; }
  ~RestartTest() override { fork_limit = nullptr; }
  WorkerGroupOptions options() {
    return {.step_limit = milliseconds(1000),
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

  testing::Shared<Lives> lives_;
  std::vector<std::string> deaths_;
};

TEST_F(RestartTest, WhateverEndedIt) {
  const std::vector<std::pair<std::function<void()>, std::string>> ends{
      {[] { throw Error("no rom"); }, "threw while stepping environment 5 at step 12: no rom"},
      {[] { std::exit(3); }, "called exit(3) while stepping"},
      {[] { raise(SIGKILL); }, "SIGKILL"},
      {[] { wait_forever(); }, "for more than 1.0 s"}};
  for (const auto& [end, words] : ends) {
    new (&*lives_) Lives;
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

}  // namespace
}  // namespace shoal
