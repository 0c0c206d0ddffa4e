#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace shoal {

// The median of sorted numbers, at least one.
inline double median_of_sorted(std::span<const double> numbers) {
  const auto n = numbers.size();
  return (numbers[(n - 1) / 2] + numbers[n / 2]) / 2;
}

// The median of at least one number.
inline double median_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return median_of_sorted(numbers);
}

}  // namespace shoal
