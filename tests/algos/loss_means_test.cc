#include "algos/loss_means.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/message_of.h"

namespace shoal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

LossMeans two() { return {{"loss", "grad_norm"}, {.steps = 40, .schedule_steps = 100}}; }

TEST(LossMeansTest, EveryNumberIsLookedAtWhenItIsAdded) {
  EXPECT_TRUE(message_of<DataError>([] {
                two().add(at::tensor({1.0, kInfinity}));
              }).starts_with("grad_norm of the update after 40 steps is inf, expected a finite"));
  auto totals = two();
  totals.add(at::tensor({1.0F, 2.0F}));
  EXPECT_TRUE(message_of<DataError>([&] {
                totals.add(at::tensor({std::numeric_limits<float>::quiet_NaN(), 2.0F}));
              }).starts_with("loss of the update after 40 steps is NaN"));
}

TEST(LossMeansTest, ASumThatOverflowsIsAnError) {
  auto totals = two();
  for (int i = 0; i < 2; ++i) totals.add(at::tensor({3e38F, 1.0F}));
  for (const auto& words : {message_of<DataError>([&] { totals.check(); }),
                            message_of<DataError>([&] { totals.means(); })})
    EXPECT_TRUE(words.starts_with("loss of the update after 40 steps is inf")) << words;
}

TEST(LossMeansTest, MeansAreOverAllThatWasAdded) {
  auto totals = two();
  EXPECT_TRUE(totals.means().empty());
  totals.add(at::tensor({1.0F, 2.0F}));
  totals.add({});
  totals.add(at::tensor({3.0F, 6.0F}));
  EXPECT_EQ(totals.means(), (Metrics{{"loss", 2.0}, {"grad_norm", 4.0}}));
}

}  // namespace
}  // namespace shoal
