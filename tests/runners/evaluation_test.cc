#include "shoal/runners/evaluation.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shoal/core/error.h"
#include "tests/runners/toy_parts.h"

namespace shoal {
namespace {

EvaluationResult play(EvaluationOptions options) {
  at::set_num_threads(1);
  IdleAgent agent;
  return evaluate(make_staircase, agent, options);
}

// Environments with short episodes end many more of them in the same time; each must still play its
// share only, and the first ones of it.
TEST(Evaluation, CountsTheFirstEpisodesOfEachEnvironment) {
  for (const auto kind : {SamplerKind::kSerial, SamplerKind::kParallelGpu}) {
    const auto result = play({.episodes = 10, .envs = 4, .workers = 2, .kind = kind, .horizon = 5});
    const std::vector<double> expected = {1, 101, 201, 2, 102, 202, 3, 103, 4, 104};
    EXPECT_EQ(result.returns, expected);
    EXPECT_EQ(result.episodes, 10);
    EXPECT_DOUBLE_EQ(result.mean_return, 82.3);
    EXPECT_NEAR(result.std_return, 74.5199, 1e-3);
  }
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
  int windows = 0;
  EXPECT_EQ(evaluator.run([&] { return windows++ == 3; }).episodes, 3);
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
