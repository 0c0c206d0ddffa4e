#include "shoal/runners/console.h"

#include <gtest/gtest.h>

#include <limits>

namespace shoal {
namespace {

const Status kHalf{.steps = 1'000'000,
                   .total = 2'000'000,
                   .episodes = 12,
                   .seconds = 100,
                   .sps = 10'000,
                   .mean_return = 17.25};

TEST(Console, LiveLineTellsEverything) {
  const std::string line = live_line(kHalf, 200);
  for (const char* part : {"[============            ]", " 50%", "1.00M/2.00M steps", "10.0k/s",
                           "return 17.2", "1m40s left"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
}

TEST(Console, LiveLineFitsTheTerminal) {
  for (int width = 1; width < 100; ++width)
    EXPECT_LE(live_line(kHalf, width).size(), static_cast<std::size_t>(width));
}

TEST(Console, AnOrdinaryTerminalShowsTheTimeLeft) {
  for (const int width : {79, 80}) {
    const std::string line = live_line(kHalf, width);
    EXPECT_EQ(line.size(), static_cast<std::size_t>(width));
    EXPECT_TRUE(line.ends_with("]  50%  1.00M/2.00M steps  10.0k/s  return 17.2  1m40s left"))
        << line;
  }
  EXPECT_TRUE(live_line(kHalf, 60).starts_with("[====    ]")) << "the shortest bar";
}

TEST(Console, NothingKnownYet) {
  const Status start{.total = 10, .mean_return = std::numeric_limits<double>::quiet_NaN()};
  EXPECT_NE(live_line(start, 200).find("return -"), std::string::npos);
  EXPECT_EQ(live_line(start, 200).find("left"), std::string::npos);
}

TEST(Console, MoreStepsThanAskedForIsAFullBar) {
  const std::string line = live_line({.steps = 11, .total = 10, .sps = 1}, 200);
  EXPECT_NE(line.find("[========================] 100%"), std::string::npos) << line;
}

TEST(Console, Durations) {
  EXPECT_EQ(duration(0.4), "0s");
  EXPECT_EQ(duration(59.6), "1m00s");
  EXPECT_EQ(duration(3599.6), "1h00m");
  EXPECT_EQ(duration(7322), "2h02m");
}

}  // namespace
}  // namespace shoal
