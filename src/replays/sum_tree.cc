#include "src/replays/sum_tree.h"

#include <cassert>

#include "shoal/core/error.h"

namespace shoal {

SumTree::SumTree(std::int64_t leaves) : leaves_(leaves) {
  require(leaves >= 1, "leaves of a sum tree: found {}, expected at least 1", leaves);
  auto nodes = (static_cast<std::size_t>(leaves) + kFan - 1) / kFan;
  leaf_.resize(nodes * kFan);
  do {
    nodes = (nodes + kFan - 1) / kFan;
    inner_.emplace_back(nodes);
  } while (nodes > 1);
}

void SumTree::Node::add_up() {
  for (std::size_t c = 1; c < kFan; ++c) start[c] = start[c - 1] + child[c - 1];
}

double SumTree::group_total(std::size_t group) const {
  const double* c = leaf_.data() + group * kFan;
  return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
}

// Here and in find(), all leaves are processed level by level, so that memory accesses overlap.
void SumTree::set(std::span<const std::int64_t> leaf, std::span<const double> value) {
  for (std::size_t i = 0; i < leaf.size(); ++i) leaf_[static_cast<std::size_t>(leaf[i])] = value[i];
  std::size_t below = kFan;  // leaves below a child of this level
  for (std::size_t level = 0; level < inner_.size(); ++level, below *= kFan) {
    for (const auto one : leaf) {
      const auto child = static_cast<std::size_t>(one) / below;
      auto& node = inner_[level][child / kFan];
      node.child[child % kFan] = total_below(level, child);
      node.add_up();
    }
  }
}

void SumTree::set_range(std::int64_t first, std::span<const double> value) {
  if (value.empty()) return;
  auto from = static_cast<std::size_t>(first), to = from + value.size() - 1;
  for (std::size_t i = 0; i < value.size(); ++i) leaf_[from + i] = value[i];
  for (std::size_t level = 0; level < inner_.size(); ++level) {
    from /= kFan, to /= kFan;
    for (auto child = from; child <= to; ++child)
      inner_[level][child / kFan].child[child % kFan] = total_below(level, child);
    for (auto node = from / kFan; node <= to / kFan; ++node) inner_[level][node].add_up();
  }
}

void SumTree::find(std::span<const double> x, std::span<std::int64_t> leaf) const {
  assert(total() > 0);
  rest_.assign(x.begin(), x.end());
  for (auto& place : leaf) place = 0;
  // By rounding, x can lie beyond the last child that is not 0; the end of that child is taken
  // then.
  const auto go_back = [](const double* child, std::size_t& chosen, double& rest) {
    do --chosen;
    while (child[chosen] == 0);
    rest = child[chosen];
  };
  for (auto level = inner_.size(); level-- > 0;) {
    const auto* nodes = inner_[level].data();
    for (std::size_t i = 0; i < leaf.size(); ++i) {
      const auto& node = nodes[leaf[i]];
      // Branchless, because branches would be unpredictable.
      std::size_t chosen = 0;
      for (std::size_t c = 1; c < kFan; ++c) chosen += rest_[i] >= node.start[c];
      rest_[i] -= node.start[chosen];
      if (node.child[chosen] == 0) go_back(node.child.data(), chosen, rest_[i]);
      leaf[i] = leaf[i] * static_cast<std::int64_t>(kFan) + static_cast<std::int64_t>(chosen);
    }
  }
  for (std::size_t i = 0; i < leaf.size(); ++i) {
    const double* child = leaf_.data() + static_cast<std::size_t>(leaf[i]) * kFan;
    std::size_t chosen = 0;
    double end = 0;
    for (std::size_t c = 0; c + 1 < kFan; ++c) chosen += rest_[i] >= (end += child[c]);
    if (child[chosen] == 0) go_back(child, chosen, rest_[i]);
    leaf[i] = leaf[i] * static_cast<std::int64_t>(kFan) + static_cast<std::int64_t>(chosen);
  }
}

}  // namespace shoal
