#include "shoal/replays/sum_tree.h"

#include <cassert>

#include "shoal/core/error.h"

namespace shoal {

SumTree::SumTree(std::int64_t leaves) : leaves_(leaves) {
  require(leaves >= 1, "a sum tree of {} leaves: at least 1 is needed", leaves);
  auto nodes = static_cast<std::size_t>(leaves);
  do {
    nodes = (nodes + kFan - 1) / kFan;
    levels_.emplace_back(nodes);
  } while (nodes > 1);
}

// Level by level for all of them, here and below: the memory of one is fetched while another is
// worked on.
void SumTree::set(std::span<const std::int64_t> leaf, std::span<const double> value) {
  for (std::size_t i = 0; i < leaf.size(); ++i) {
    const auto at = static_cast<std::size_t>(leaf[i]);
    levels_[0][at / kFan].child[at % kFan] = value[i];
  }
  std::size_t below = kFan;  // leaves below a node of this level
  for (std::size_t level = 1; level < levels_.size(); ++level, below *= kFan) {
    for (const auto one : leaf) {
      const auto child = static_cast<std::size_t>(one) / below;
      levels_[level][child / kFan].child[child % kFan] = sum(levels_[level - 1][child]);
    }
  }
}

void SumTree::set_range(std::int64_t first, std::span<const double> value) {
  if (value.empty()) return;
  auto from = static_cast<std::size_t>(first), to = from + value.size() - 1;
  for (std::size_t i = 0; i < value.size(); ++i)
    levels_[0][(from + i) / kFan].child[(from + i) % kFan] = value[i];
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    from /= kFan, to /= kFan;
    for (auto child = from; child <= to; ++child)
      levels_[level][child / kFan].child[child % kFan] = sum(levels_[level - 1][child]);
  }
}

void SumTree::find(std::span<const double> x, std::span<std::int64_t> leaf) const {
  assert(total() > 0);
  rest_.assign(x.begin(), x.end());
  for (auto& node : leaf) node = 0;
  for (auto level = levels_.size(); level-- > 0;) {
    const auto* nodes = levels_[level].data();
    for (std::size_t i = 0; i < leaf.size(); ++i) {
      const auto& child = nodes[leaf[i]].child;
      // The first child whose end lies beyond x; without branches, which could not be foreseen.
      double end = 0, passed = 0;
      std::size_t chosen = 0;
      for (std::size_t c = 0; c + 1 < kFan; ++c) {
        end += child[c];
        const bool beyond = rest_[i] >= end;
        chosen += beyond;
        passed = beyond ? end : passed;
      }
      rest_[i] -= passed;
      if (child[chosen] == 0) {  // by rounding, x lies behind the last one that is not 0: take that
        do --chosen;
        while (child[chosen] == 0);
        rest_[i] = child[chosen];
      }
      leaf[i] = leaf[i] * static_cast<std::int64_t>(kFan) + static_cast<std::int64_t>(chosen);
    }
  }
}

}  // namespace shoal
