#pragma once

#include <span>

namespace shoal {

// The median of sorted numbers, at least one.
inline double median_of_sorted(std::span<const double> numbers) {
  const auto n = numbers.size();
  return (numbers[(n - 1) / 2] + numbers[n / 2]) / 2;
}

}  // namespace shoal
