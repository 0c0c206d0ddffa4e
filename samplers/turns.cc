#include "samplers/turns.h"

#include <algorithm>
#include <numeric>

#include "src/core/median.h"

namespace shoal {
namespace {

constexpr double kLeastSeconds = 0.1, kMostSeconds = 1, kShareOfRun = 0.1;

// The share of the best rate that a candidate needs after this round. Single turns differ by a
// tenth, and more on a busy machine; their medians by less.
double least_share(int round) { return 1 - 0.4 / round; }

}  // namespace

Comparison compare_by_turns(std::size_t candidates, std::int64_t steps,
                            const std::function<Turn(std::size_t)>& take_turn) {
  std::vector<std::size_t> left(candidates);
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::vector<std::vector<double>> turns(candidates);
  Comparison found{.rates = std::vector<double>(candidates)};
  double spent = 0;
  for (int round = 1; left.size() > 1 || round == 1; ++round) {
    for (const auto i : left) {
      const auto turn = take_turn(i);
      if (!(turn.steps > 0 && turn.seconds > 0)) return {};
      spent += turn.warming + turn.seconds;
      turns[i].push_back(turn.steps / turn.seconds);
      found.rates[i] = median_of(turns[i]);
    }
    found.fastest =
        *std::ranges::max_element(left, {}, [&](std::size_t i) { return found.rates[i]; });
    const double best = found.rates[found.fastest];
    std::erase_if(left, [&](std::size_t i) { return found.rates[i] < least_share(round) * best; });
    const double share = kShareOfRun * static_cast<double>(steps) / best;
    if (spent >= std::clamp(share, kLeastSeconds, kMostSeconds)) break;
  }
  return found;
}

}  // namespace shoal
