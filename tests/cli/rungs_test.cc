#include "cli/rungs.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace shoal::cli {
namespace {

Rungs nine_trials() {
  Rungs rungs({.min_steps = 100, .max_steps = 1000, .factor = 3});
  for (int i = 0; i < 9; ++i) rungs.add_trial();
  return rungs;
}

TEST(RungsTest, TheStepsGrowByTheFactorUpToTheMost) {
  const auto rungs = nine_trials();
  ASSERT_EQ(rungs.count(), 4);
  EXPECT_EQ(rungs.steps(0), 100);
  EXPECT_EQ(rungs.steps(2), 900);
  EXPECT_EQ(rungs.steps(3), 1000);
  EXPECT_EQ(Rungs({.min_steps = 50, .max_steps = 50}).count(), 1);
}

// One at a time; earlier trials are better.
TEST(RungsTest, TheBestThirdGoesOn) {
  auto rungs = nine_trials();
  std::vector<int> trained(9, 0);
  while (const auto job = rungs.next()) {
    EXPECT_EQ(job->rung, trained[job->trial]++);
    rungs.record(job->trial, job->rung, -static_cast<double>(job->trial), false);
  }
  EXPECT_EQ(rungs.best(), 0U);
  EXPECT_EQ(trained[0], 4) << "to the end, though no others are left to compare it with";
  EXPECT_EQ(trained[7] + trained[8], 2);
  int jobs = 0;
  for (const int n : trained) jobs += n;
  EXPECT_EQ(jobs, 9 + 3 + 1 + 1);
}

TEST(RungsTest, APromotionNeedsAsManyResultsAsTheFactor) {
  auto rungs = nine_trials();
  const auto a = rungs.next(), b = rungs.next(), c = rungs.next();
  rungs.record(a->trial, 0, 1, false);
  rungs.record(b->trial, 0, 5, false);
  EXPECT_EQ(rungs.next()->rung, 0);
  rungs.record(c->trial, 0, 2, false);
  const auto next = rungs.next();
  EXPECT_EQ(next->trial, b->trial);
  EXPECT_EQ(next->rung, 1);
}

TEST(RungsTest, TheBestGoesOnToTheEndThoughOthersFail) {
  Rungs rungs({.min_steps = 100, .max_steps = 1000, .factor = 3});
  for (int i = 0; i < 4; ++i) rungs.add_trial();
  int jobs = 0;
  while (const auto job = rungs.next()) {
    ASSERT_LT(++jobs, 20);
    if ((job->trial == 3 && job->rung == 0) || (job->trial == 0 && job->rung == 2))
      rungs.give_up(job->trial);
    else
      rungs.record(job->trial, job->rung, -static_cast<double>(job->trial), false);
  }
  EXPECT_EQ(rungs.best(), 1U) << "trial 0 led, and failed";
  EXPECT_EQ(rungs.reached(1), rungs.count() - 1);
}

TEST(RungsTest, ASolvedTrialIsTheBestAndALostOneIsNotTrainedAgain) {
  auto rungs = nine_trials();
  const auto lost = rungs.next();
  rungs.give_up(lost->trial);
  std::set<std::size_t> seen;
  for (auto job = rungs.next(); job; job = rungs.next()) {
    seen.insert(job->trial);
    rungs.record(job->trial, job->rung, job->trial == 4 ? 1 : 9, job->trial == 4);
    if (rungs.solved()) break;
  }
  EXPECT_EQ(seen.count(lost->trial), 0U);
  EXPECT_EQ(rungs.best(), 4U);
}

}  // namespace
}  // namespace shoal::cli
