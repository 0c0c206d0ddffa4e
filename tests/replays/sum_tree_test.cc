#include "src/replays/sum_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"

namespace shoal {
namespace {

// Where x falls, looked for one after the other.
std::int64_t find_slowly(const std::vector<double>& values, double x) {
  double end = 0;
  std::int64_t last = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    last = static_cast<std::int64_t>(i);
    if (x < (end += values[i])) return last;
  }
  return last;
}

std::int64_t find(const SumTree& tree, double x) {
  std::int64_t leaf = -1;
  tree.find({&x, 1}, {&leaf, 1});
  return leaf;
}

// Whole numbers, of which no sum is rounded.
TEST(SumTreeTest, EqualsALinearScanOverAMillionOperations) {
  constexpr int kOperations = 1'000'000;
  Rng rng(1);
  for (const std::int64_t leaves : {1, 7, 8, 9, 64, 65, 600}) {
    SCOPED_TRACE(leaves);
    SumTree tree(leaves);
    std::vector<double> values(static_cast<std::size_t>(leaves), 0);
    double total = 0;
    for (int i = 0; i < kOperations / 7; ++i) {
      const auto leaf = rng.integer(0, leaves);
      const auto kind = rng.integer(0, 8);
      if (kind == 0) {
        const auto n = rng.integer(0, std::min<std::int64_t>(leaves - leaf, 20) + 1);
        std::vector<double> range;
        for (std::int64_t k = 0; k < n; ++k) {
          range.push_back(static_cast<double>(rng.integer(0, 3)));
          auto& old = values[static_cast<std::size_t>(leaf + k)];
          total += range.back() - old;
          old = range.back();
        }
        tree.set_range(leaf, range);
      } else if (kind < 5) {
        const std::vector<std::int64_t> at{leaf, rng.integer(0, leaves), leaf};
        const std::vector<double> to{1000, static_cast<double>(rng.integer(0, 100)),
                                     static_cast<double>(rng.integer(0, 5))};
        tree.set(at, to);
        for (std::size_t k = 0; k < at.size(); ++k) {
          auto& old = values[static_cast<std::size_t>(at[k])];
          total += to[k] - old;
          old = to[k];
        }
      } else if (total > 0) {
        const double x = static_cast<double>(rng.integer(0, static_cast<std::int64_t>(total)));
        ASSERT_EQ(find(tree, x), find_slowly(values, x)) << x << " of " << total;
      }
      ASSERT_EQ(tree.total(), total);
      ASSERT_EQ(tree[leaf], values[static_cast<std::size_t>(leaf)]);
    }
  }
}

// With values of all sizes sums are rounded, and x can lie beyond the last one.
TEST(SumTreeTest, NeverFindsALeafOfZero) {
  Rng rng(2);
  constexpr std::int64_t kLeaves = 5000;
  SumTree tree(kLeaves);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> leaf;
    std::vector<double> value;
    for (int i = 0; i < 100; ++i) {
      leaf.push_back(rng.integer(0, kLeaves));
      value.push_back(rng.integer(0, 2) == 0 ? 0 : std::pow(10, rng.uniform(-12, 12)));
    }
    value.front() = 1;
    tree.set(leaf, value);
    std::vector<double> x{0, tree.total(), std::nextafter(tree.total(), 0), 2 * tree.total()};
    for (int i = 0; i < 100; ++i) x.push_back(rng.uniform(0, tree.total()));
    std::vector<std::int64_t> found(x.size());
    tree.find(x, found);
    for (const auto one : found) {
      ASSERT_GE(one, 0);
      ASSERT_LT(one, kLeaves);
      ASSERT_GT(tree[one], 0);
    }
  }
}

// The same values, reached by different ways.
TEST(SumTreeTest, NothingDrifts) {
  Rng rng(3);
  constexpr std::size_t kLeaves = 1000;
  SumTree worn(kLeaves), fresh(kLeaves);
  std::vector<double> values(kLeaves);
  std::vector<std::int64_t> leaf(kLeaves);
  std::iota(leaf.begin(), leaf.end(), 0);
  for (int round = 0; round < 1000; ++round) {
    for (auto& value : values) value = std::pow(10, rng.uniform(-9, 9));
    worn.set(leaf, values);
  }
  fresh.set_range(0, values);
  EXPECT_EQ(worn.total(), fresh.total());
}

TEST(SumTreeTest, NeedsALeaf) { EXPECT_THROW(SumTree(0), Error); }

}  // namespace
}  // namespace shoal
