#include "shoal/core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Known answers published with the paper's code.
TEST(RngTest, PhiloxGivesThePublishedNumbers) {
  EXPECT_EQ(philox(0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0UL, ~0UL, ~0UL), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RngTest, UnitFloatsStayBelowOne) {
  EXPECT_EQ(to_unit_float(0), 0.0F);
  EXPECT_LT(to_unit_float(~0U), 1.0F);
  EXPECT_EQ(to_unit_float(0x80000000U), 0.5F);
}

TEST(RngTest, GoesOnFromAnySavedCounter) {
  Rng whole(7);
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 20; ++i) numbers.push_back(whole());
  EXPECT_EQ(whole.counter(), 20u);
  for (std::uint64_t start = 0; start < 20; ++start) {
    Rng resumed(7, start);
    for (auto i = start; i < 20; ++i) ASSERT_EQ(resumed(), numbers[i]) << start << " " << i;
  }
}

TEST(RngTest, EnvironmentSeedsDiffer) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (const auto stream : {Stream::kTrain, Stream::kEval})
      for (std::int64_t index = 0; index < 100; ++index)
        seeds.insert(env_seed(seed, stream, index));
  EXPECT_EQ(seeds.size(), 2000u);
  EXPECT_EQ(env_seed(3, Stream::kTrain, 5), env_seed(3, Stream::kTrain, 5));
}

TEST(RngTest, UniformFillsItsInterval) {
  Rng rng(1);
  double sum = 0, least = 1e9, most = -1e9;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.uniform(-3, 5);
    sum += x;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  EXPECT_NEAR(sum / kDraws, 1.0, 0.03);
  EXPECT_GE(least, -3);
  EXPECT_LT(most, 5);
  EXPECT_LT(least, -2.99);
  EXPECT_GT(most, 4.99);
}

TEST(RngTest, UniformNeverReachesItsUpperEndByRounding) {
  Rng rng(2);
  const double high = std::nextafter(1.0, 2.0);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(rng.uniform(1.0, high), 1.0);
}

TEST(RngTest, IntegersAreEquallyLikely) {
  Rng rng(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts.at(static_cast<std::size_t>(rng.integer(-2, 5) + 2));
  for (const int n : counts) EXPECT_NEAR(n, 10'000, 400);
}

// A range of 3/4 of 2^64: without rejection every third result would be twice as likely as its
// neighbours.
TEST(RngTest, IntegersOfAWideRangeAreNotBiased) {
  Rng rng(4);
  constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHigh = 1L << 62;
  std::array<int, 3> counts{};
  for (int i = 0; i < 30'000; ++i)
    ++counts[(static_cast<std::uint64_t>(rng.integer(kLow, kHigh)) -
              static_cast<std::uint64_t>(kLow)) %
             3];
  for (const int n : counts) EXPECT_NEAR(n, 10'000, 400);
  EXPECT_EQ(rng.integer(9, 10), 9);
  EXPECT_THROW(rng.integer(4, 4), Error);
}

TEST(RngTest, ServesTheStandardDistributions) {
  Rng rng(5);
  std::normal_distribution<double> normal;
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) sum += normal(rng);
  EXPECT_NEAR(sum / 10'000, 0, 0.04);
}

}  // namespace
}  // namespace shoal
