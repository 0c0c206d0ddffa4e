#pragma once

#include <vector>

#include "src/core/median.h"

namespace shoal::cli {

// The medians of rates that were measured by turns, and of their ratios.
struct ByTurns {
  double peer, own, ratio;
};
template <class Peer, class Own>
ByTurns by_turns(int runs, const Peer& peer, const Own& own) {
  std::vector<double> slow, fast, ratio;
  for (int i = 0; i < runs; ++i) {
    slow.push_back(peer());
    fast.push_back(own());
    ratio.push_back(fast.back() / slow.back());
  }
  return {median_of(slow), median_of(fast), median_of(ratio)};
}

}  // namespace shoal::cli
