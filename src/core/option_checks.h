#pragma once

#include <cmath>
#include <string>

#include "shoal/core/error.h"

// What options are held to. Each throws Error with the key, what was found and what was expected.
namespace shoal {

template <class T>
void require_at_least(const std::string& key, T value, T low) {
  require(value >= low, "{}: found {}, expected at least {}", key, value, low);
}

inline void require_within(const std::string& key, double value, double low, double high) {
  require(value >= low && value <= high, "{}: found {}, expected {} to {}", key, value, low, high);
}

inline void require_above_0(const std::string& key, double value) {
  require(value > 0 && std::isfinite(value), "{}: found {}, expected a number above 0", key, value);
}

}  // namespace shoal
