#include "shoal/core/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace shoal {
namespace {

template <class Number>
class FiniteTest : public ::testing::Test {};
using Numbers = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FiniteTest, Numbers);

TYPED_TEST(FiniteTest, LimitsOfFiniteNumbersAreFinite) {
  using Limits = std::numeric_limits<TypeParam>;
  const std::vector<TypeParam> limits{
      0, -0.0F, 1, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()};
  std::vector<TypeParam> x;
  for (std::int64_t n = 0; n < 50; ++n) {
    EXPECT_TRUE(all_finite(x.data(), n));
    x.push_back(limits[static_cast<std::size_t>(n) % limits.size()]);
  }
}

TYPED_TEST(FiniteTest, EveryOtherNumberIsFoundAtEveryPlace) {
  using Limits = std::numeric_limits<TypeParam>;
  for (const auto bad : {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(),
                         Limits::infinity(), -Limits::infinity()}) {
    for (std::int64_t n = 1; n <= 37; ++n) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::vector<TypeParam> x(static_cast<std::size_t>(n), TypeParam{1});
        x[static_cast<std::size_t>(i)] = bad;
        ASSERT_FALSE(all_finite(x.data(), n)) << bad << " at " << i << " of " << n;
      }
    }
  }
}

TEST(FiniteNameTest, TheSignOfNanIsNotShown) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_STREQ(name_not_finite(kNan), "NaN");
  EXPECT_STREQ(name_not_finite(-kNan), "NaN");
  EXPECT_STREQ(name_not_finite(HUGE_VAL), "inf");
  EXPECT_STREQ(name_not_finite(-HUGE_VAL), "-inf");
}

}  // namespace
}  // namespace shoal
