#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal {

// Non-negative numbers, one of which can be drawn with probability proportional to its size, in
// logarithmic time. Every inner node is the sum of its children, summed again in a fixed order
// whenever a child changes: rounding errors do not accumulate, and the tree depends only on the
// current leaves. Used by one thread at a time.
class SumTree {
 public:
  // All leaves are 0. Throws Error unless `leaves` is at least 1.
  explicit SumTree(std::int64_t leaves);

  std::span<const double> leaves() const {
    return {leaf_.data(), static_cast<std::size_t>(leaves_)};
  }
  double total() const { return inner_.back()[0].total(); }
  double operator[](std::int64_t leaf) const { return leaf_[static_cast<std::size_t>(leaf)]; }

  // Sets leaf[i] to value[i]; if a leaf occurs more than once, its last value counts.
  void set(std::span<const std::int64_t> leaf, std::span<const double> value);
  // Sets the leaves [first, first + value.size()).
  void set_range(std::int64_t first, std::span<const double> value);

  // Finds for each x in [0, total) the leaf with sum of [0, leaf) <= x < sum of [0, leaf], up to
  // rounding. Never a leaf of 0; total() must be above 0.
  void find(std::span<const double> x, std::span<std::int64_t> leaf) const;

 private:
  static constexpr std::size_t kFan = 8;  // children of a node
  // The sums of the children, and their prefix sums.
  struct alignas(64) Node {
    std::array<double, kFan> child{}, start{};
    double total() const { return start[kFan - 1] + child[kFan - 1]; }
    void add_up();
  };
  // The sum of kFan leaves.
  double group_total(std::size_t group) const;
  double total_below(std::size_t level, std::size_t child) const {
    return level == 0 ? group_total(child) : inner_[level - 1][child].total();
  }

  std::int64_t leaves_;
  std::vector<double> leaf_;              // padded with zeros to whole groups
  std::vector<std::vector<Node>> inner_;  // levels, from the one above the groups to the root
  mutable std::vector<double> rest_;      // find(): the rest of each x on its way down
};

}  // namespace shoal
