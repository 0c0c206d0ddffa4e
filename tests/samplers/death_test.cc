#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "shoal/core/error.h"
#include "tests/samplers/deaths.h"
#include "tests/support/toy_agents.h"

namespace shoal {
namespace {

using testing::Mishap;
using DeathTest = LeavesNothing;

struct Outcome {
  std::string text;
  std::int64_t env = -1, step = -1;
  Clock::duration took{};
};

// Collects until the mishap; environment 5 of 8 belongs to worker 1 of 2.
Outcome run_until_death(Mishap mishap, std::chrono::milliseconds limit = 60s,
                        SamplerKind kind = SamplerKind::kParallelGpu, bool asynchronous = false,
                        std::int64_t batch = 0) {
  testing::ToyAgent agent(2), actor(2);
  Outcome out;
  auto before = Clock::now();
  try {
    const SamplerOptions options{.kind = kind,
                                 .horizon = 10,
                                 .envs = 8,
                                 .workers = 2,
                                 .dynamic_batch = batch,
                                 .step_limit = limit,
                                 .reset_limit = limit};
    const auto sampler = make_either(asynchronous, unlucky(mishap), agent, actor, options);
    sampler->collect();
    before = Clock::now();
    sampler->collect();
    // The other worker may go on for a while.
    while (asynchronous && Clock::now() - before < 5s) sampler->collect();
  } catch (const WorkerError& e) {
    EXPECT_EQ(e.worker, 1) << e.what();
    out = {e.what(), e.env, e.step, Clock::now() - before};
  }
  EXPECT_FALSE(out.text.empty()) << "the run went on";
  return out;
}

void expect_words(const Outcome& out, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(out.text.find(word), std::string::npos) << word << " not in: " << out.text;
}

TEST_F(DeathTest, AnExceptionArrivesWithItsText) {
  const auto out = run_until_death(Mishap::kThrow);
  EXPECT_LT(out.took, 2s);
  EXPECT_EQ(out.env, 5);
  EXPECT_EQ(out.step, 11);
  expect_words(out, {"worker 1", "environment 5", "step 11", "the wheel came off"});
}

TEST_F(DeathTest, AnAbortIsNamed) {
  const auto out = run_until_death(Mishap::kAbort);
  EXPECT_LT(out.took, 2s);
  expect_words(out, {"worker 1", "environment 5", "step 11", "SIGABRT"});
}

TEST_F(DeathTest, ACallOfExitIsNamed) {
  const auto out = run_until_death(Mishap::kExit);
  EXPECT_LT(out.took, 2s);
  expect_words(out, {"worker 1", "environment 5", "step 11", "exit(3)"});
}

TEST_F(DeathTest, AKilledWorkerIsNoticed) {
  const auto out = run_until_death(Mishap::kKill);
  EXPECT_LT(out.took, 2s);
  expect_words(out, {"worker 1", "environment 5", "step 11", "SIGKILL"});
}

TEST_F(DeathTest, AHangEndsAtItsLimit) {
  const auto out = run_until_death(Mishap::kHang, 500ms);
  EXPECT_GT(out.took, 400ms);
  EXPECT_LT(out.took, 1500ms);
  expect_words(out, {"worker 1", "environment 5", "step 11"});
}

TEST_F(DeathTest, TheSameWhereWorkersActThemselves) {
  for (const auto mishap : {Mishap::kThrow, Mishap::kExit, Mishap::kKill}) {
    const auto out = run_until_death(mishap, 60s, SamplerKind::kParallelCpu);
    EXPECT_LT(out.took, 2s);
    expect_words(out, {"worker 1", "environment 5", "step 11"});
  }
  const auto out = run_until_death(Mishap::kHang, 500ms, SamplerKind::kParallelCpu);
  EXPECT_LT(out.took, 1500ms);
  expect_words(out, {"worker 1", "environment 5", "step 11"});
}

TEST_F(DeathTest, TheSameWhileTheCallerLearns) {
  for (const auto kind : {SamplerKind::kParallelCpu, SamplerKind::kParallelGpu}) {
    for (const auto mishap : {Mishap::kThrow, Mishap::kExit, Mishap::kKill}) {
      const auto out = run_until_death(mishap, 60s, kind, /*asynchronous=*/true);
      EXPECT_LT(out.took, 2s);
      expect_words(out, {"worker 1", "environment 5", "step 11"});
    }
    const auto out = run_until_death(Mishap::kHang, 500ms, kind, /*asynchronous=*/true);
    EXPECT_LT(out.took, 1500ms);
    expect_words(out, {"worker 1", "environment 5", "step 11"});
  }
}

TEST_F(DeathTest, TheSameAtTheirOwnPace) {
  for (const bool asynchronous : {false, true}) {
    const auto run = [&](Mishap mishap, std::chrono::milliseconds limit) {
      return run_until_death(mishap, limit, SamplerKind::kParallelGpu, asynchronous, /*batch=*/1);
    };
    for (const auto mishap : {Mishap::kThrow, Mishap::kExit, Mishap::kKill}) {
      const auto out = run(mishap, 60s);
      EXPECT_LT(out.took, 2s);
      expect_words(out, {"worker 1", "environment 5", "step 11"});
    }
    const auto out = run(Mishap::kHang, 500ms);
    EXPECT_LT(out.took, 1500ms);
    expect_words(out, {"worker 1", "environment 5", "step 11"});
  }
}

TEST_F(DeathTest, AnEnvironmentThatCannotBeResetIsNamed) {
  expect_words(run_until_death(Mishap::kThrowInReset),
               {"worker 1", "environment 5", "cannot be reset"});
}

TEST_F(DeathTest, WorkersDieWithTheAgentProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t agent_process = fork();
  if (agent_process == 0) {
    testing::ToyAgent agent(2);
    auto sampler =
        make_sampler(testing::make_counter(), agent, {.horizon = 10, .envs = 8, .workers = 3});
    sampler->collect();
    char ready = 'r';
    if (write(ends[1], &ready, 1) != 1) _exit(1);
    for (;;) sampler->collect();
  }
  char ready = 0;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  const auto workers = children(agent_process);
  ASSERT_EQ(workers.size(), 3U);
  kill(agent_process, SIGKILL);
  waitpid(agent_process, nullptr, 0);
  const auto deadline = Clock::now() + 2s;
  auto running = [](pid_t pid) {
    // A zombie does not run.
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    const auto state = text.rfind(") ");
    return state != std::string::npos && text[state + 2] != 'Z';
  };
  for (const pid_t worker : workers) {
    while (running(worker) && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_FALSE(running(worker)) << worker;
  }
  close(ends[0]);
  close(ends[1]);
}

// An environment whose steps fork. The child returns from its step while the worker takes the next
// one, so that anything it writes would remain visible.
class Forking : public testing::Counter {
 public:
  explicit Forking(const EnvContext& c) : Counter(c, {.length = 7}) {}
  StepResult step(ArraysIn action, StepOut out) override {
    let_child_return();
    int ends[2];
    require(pipe(ends) == 0, "no pipe");
    child_ = fork();
    if (child_ == 0) {
      close(ends[1]);
      char nothing = 0;
      while (read(ends[0], &nothing, 1) < 0) {
      }
      return {.reward = -1};
    }
    close(ends[0]);
    held_by_ = ends[1];
    return Counter::step(action, out);
  }

 private:
  void let_child_return() {
    if (child_ <= 0) return;
    close(held_by_);
    while (waitpid(child_, nullptr, 0) < 0) {
    }
  }
  pid_t child_ = 0;
  int held_by_ = -1;  // a pipe, from which the child reads until it is closed
};

TEST_F(DeathTest, AForkThatComesBackFromAStepIsNoSecondWorker) {
  for (const auto kind : {SamplerKind::kParallelGpu, SamplerKind::kParallelCpu}) {
    testing::ToyAgent agent(2), other(2);
    const SamplerOptions o{.kind = kind, .horizon = 10, .envs = 2, .workers = 2};
    const auto plain = make_sampler(testing::make_counter({.length = 7}), other, o);
    const auto sampler =
        make_sampler([](const EnvContext& c) { return std::make_unique<Forking>(c); }, agent, o);
    for (int rollout = 0; rollout < 3; ++rollout) {
      const auto &s = sampler->collect().samples, &want = plain->collect().samples;
      EXPECT_TRUE(at::equal(s.reward, want.reward));
      EXPECT_TRUE(at::equal(s.terminated, want.terminated));
      EXPECT_TRUE(at::equal(s.observation[0], want.observation[0]));
    }
  }
}

TEST_F(DeathTest, AnEnvironmentThatCannotBeBuiltEndsTheRunAtOnce) {
  // Only environment 5 fails; the agent process itself builds environment 0 to learn its spec.
  expect_words(run_until_death(Mishap::kThrowInConstructor),
               {"worker 1", "environment 5", "cannot be built"});
}

}  // namespace
}  // namespace shoal
