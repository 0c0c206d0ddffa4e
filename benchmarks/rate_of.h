#pragma once

#include "cli/rate.h"

namespace shoal::cli {

// Calls of act() per second, measured for `seconds`. The clock is read once for several calls.
template <class Act>
double rate_of(double seconds, const Act& act) {
  constexpr int kCalls = 16;
  return rate(seconds, [&] {
    for (int i = 0; i < kCalls; ++i) act();
    return kCalls;
  });
}

}  // namespace shoal::cli
