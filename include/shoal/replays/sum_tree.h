#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal {

// Numbers, not below zero, of which one can be drawn in proportion to its size, in a time that
// grows with the logarithm of their count. Every inner node is the sum of its children, added up
// anew whenever one of them changes, in a fixed order: nothing drifts, and what a tree holds
// depends on the last values alone. Used by one thread at a time.
class SumTree {
 public:
  // All are 0. Throws Error unless leaves is at least 1.
  explicit SumTree(std::int64_t leaves);

  std::span<const double> leaves() const {
    return {leaf_.data(), static_cast<std::size_t>(leaves_)};
  }
  double total() const { return inner_.back()[0].total(); }
  double operator[](std::int64_t leaf) const { return leaf_[static_cast<std::size_t>(leaf)]; }

  // Sets leaf[i] to value[i]; where a leaf occurs more than once, the last one counts.
  void set(std::span<const std::int64_t> leaf, std::span<const double> value);
  // Sets the leaves [first, first + value.size()).
  void set_range(std::int64_t first, std::span<const double> value);

  // Where each x in [0, total) falls if the leaves lie side by side: sum of [0, leaf) <= x < sum of
  // [0, leaf], up to rounding. Never a leaf of 0; total() must be above 0.
  void find(std::span<const double> x, std::span<std::int64_t> leaf) const;

 private:
  static constexpr std::size_t kFan = 8;  // children of a node
  // What its children hold, and where each of them starts if they lie side by side.
  struct alignas(64) Node {
    std::array<double, kFan> child{}, start{};
    double total() const { return start[kFan - 1] + child[kFan - 1]; }
    void add_up();
  };
  // Of kFan leaves.
  double group_total(std::size_t group) const;
  double total_below(std::size_t level, std::size_t child) const {
    return level == 0 ? group_total(child) : inner_[level - 1][child].total();
  }

  std::int64_t leaves_;
  std::vector<double> leaf_;              // and zeros up to whole groups
  std::vector<std::vector<Node>> inner_;  // from those above the groups to the one at the top
  mutable std::vector<double> rest_;      // of each x, while it is followed down
};

}  // namespace shoal
