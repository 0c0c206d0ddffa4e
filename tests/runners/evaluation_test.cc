#include "shoal/runners/evaluation.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "tests/runners/toy_parts.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;

EvaluationResult play(EvaluationOptions options, const EnvFactory& make_env = make_staircase) {
  at::set_num_threads(1);
  IdleAgent agent;
  return evaluate(make_env, agent, options);
}

// Does not return from reset() or from step().
class StuckEnv : public StaircaseEnv {
 public:
  explicit StuckEnv(bool in_reset) : StaircaseEnv(0), in_reset_(in_reset) {}
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    while (in_reset_) pause();
    StaircaseEnv::reset(seed, out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    while (!in_reset_) pause();
    return StaircaseEnv::step(action, out);
  }

 private:
  bool in_reset_;
};

// Each episode is one step, whose score is the number of cores that the worker may run on.
class CoresEnv : public StaircaseEnv {
 public:
  CoresEnv() : StaircaseEnv(0) {}
  StepResult step(ArraysIn action, StepOut out) override {
    auto result = StaircaseEnv::step(action, out);
    result.reward = static_cast<float>(allowed_cores().size());
    return result;
  }
};

// Loses a life with every step but the last.
class LivesEnv : public StaircaseEnv {
 public:
  explicit LivesEnv(std::int64_t lives) : StaircaseEnv(lives - 1) {}
  StepResult step(ArraysIn action, StepOut out) override {
    auto result = StaircaseEnv::step(action, out);
    result.life_lost = !result.terminated;
    result.terminated = true;
    return result;
  }
};

// Prints the error message for workers that the system does not permit to fork.
[[noreturn]] void fork_in_vain() {
  const rlimit one{1, 1};
  setrlimit(RLIMIT_NPROC, &one);
  // The limit does not apply to root.
  if (geteuid() == 0 && setuid(65534) != 0) std::perror("setuid");
  std::fputs(message_of([] { play({.workers = 2}); }).c_str(), stderr);
  std::_Exit(0);
}

// Environments with short episodes finish more of them in the same time. Each must still play its
// share only, and its first episodes count.
TEST(Evaluation, CountsTheFirstEpisodesOfEachEnvironment) {
  for (const auto kind : {SamplerKind::kSerial, SamplerKind::kParallelGpu}) {
    const auto result = play({.episodes = 10, .envs = 4, .workers = 2, .kind = kind, .horizon = 5});
    const std::vector<double> expected = {1, 101, 201, 2, 102, 202, 3, 103, 4, 104};
    EXPECT_EQ(result.returns, expected);
    EXPECT_EQ(result.lengths, (std::vector<std::int64_t>{1, 1, 1, 2, 2, 2, 3, 3, 4, 4}));
    EXPECT_EQ(result.episodes, 10);
    EXPECT_DOUBLE_EQ(result.mean_return, 82.3);
    EXPECT_NEAR(result.std_return, 74.5199, 1e-3);
  }
}

TEST(Evaluation, ALostLifeDoesNotEndAGame) {
  const auto result = play({.episodes = 2, .envs = 1, .kind = SamplerKind::kSerial, .horizon = 2},
                           [](const EnvContext&) { return std::make_unique<LivesEnv>(3); });
  EXPECT_EQ(result.returns, (std::vector<double>{3, 103}));
}

// After ten steps environment 0 is in episode 10, and environment 3 in episode 2. Only later
// episodes count.
TEST(Evaluation, ASecondRunPlaysTheEpisodesAfterThoseUnderWay) {
  at::set_num_threads(1);
  IdleAgent agent;
  for (const auto kind : {SamplerKind::kSerial, SamplerKind::kParallelGpu}) {
    Evaluator evaluator(make_staircase, agent,
                        {.episodes = 10, .envs = 4, .workers = 2, .kind = kind, .horizon = 5});
    EXPECT_EQ(evaluator.run().episodes, 10);
    int rollouts = 0;
    const auto second = evaluator.run([&] { return ++rollouts > 100; });
    const std::vector<double> expected = {1101, 1201, 1301, 602, 702, 802, 403, 503, 304, 404};
    EXPECT_EQ(second.returns, expected);
  }
}

TEST(Evaluation, TimeLimitsAreThoseGiven) {
  const auto stuck = [](bool in_reset) {
    return [=](const EnvContext&) { return std::make_unique<StuckEnv>(in_reset); };
  };
  const auto step = message_of<WorkerError>(
      [&] { play({.envs = 1, .step_limit = milliseconds(100)}, stuck(false)); });
  EXPECT_NE(step.find("raise sampler.step_limit"), std::string::npos) << step;
  const auto reset = message_of<WorkerError>(
      [&] { play({.envs = 1, .reset_limit = milliseconds(100)}, stuck(true)); });
  EXPECT_NE(reset.find("raise sampler.reset_limit"), std::string::npos) << reset;
}

TEST(Evaluation, WorkersArePinnedIfAskedTo) {
  const auto make_env = [](const EnvContext&) { return std::make_unique<CoresEnv>(); };
  const auto result = play({.episodes = 2, .workers = 2, .horizon = 1, .pin = true}, make_env);
  EXPECT_EQ(result.returns, (std::vector<double>{1, 1}));
}

TEST(EvaluationDeathTest, SaysWhatToDoIfWorkersCannotBeForked) {
  EXPECT_EXIT(fork_in_vain(), ::testing::ExitedWithCode(0), "could not be forked.*ulimit -u");
}

TEST(Evaluation, FewerEpisodesThanEnvironments) {
  const auto result = play({.episodes = 2, .envs = 16, .workers = 8, .horizon = 1});
  EXPECT_EQ(result.returns, (std::vector<double>{1, 2}));
}

TEST(Evaluation, StopsEarly) {
  at::set_num_threads(1);
  IdleAgent agent;
  Evaluator evaluator(make_staircase, agent,
                      {.episodes = 1000, .envs = 1, .kind = SamplerKind::kSerial, .horizon = 1});
  int rollouts = 0;
  EXPECT_EQ(evaluator.run([&] { return rollouts++ == 3; }).episodes, 3);
}

TEST(Evaluation, RefusesImpossibleSizes) {
  IdleAgent agent;
  for (const EvaluationOptions& options :
       {EvaluationOptions{.episodes = 0}, EvaluationOptions{.envs = 0},
        EvaluationOptions{.workers = -1}})
    EXPECT_THROW(Evaluator(make_staircase, agent, options), Error);
}

}  // namespace
}  // namespace shoal
