#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace shoal {

// One turn of a candidate. No steps: it has failed.
struct Turn {
  double steps = 0, seconds = 0;
  double warming = 0;          // seconds before these
  double shortest = HUGE_VAL;  // seconds of a step in the fastest rollout
};

struct Comparison {
  std::vector<double> rates;  // of the candidates, in steps per second; empty: a turn has failed
  std::size_t fastest = 0;
};

// Measures candidates by turns, so that changes of the machine's speed affect all of them, and
// drops slow ones after each round. Ends when one is left or the time is over: a tenth of the time
// in which the best one takes `steps`, at least 0.1 s and at most 1 s. A rate is the median of the
// candidate's turns.
Comparison compare_by_turns(std::size_t candidates, std::int64_t steps,
                            const std::function<Turn(std::size_t candidate)>& take_turn);

}  // namespace shoal
