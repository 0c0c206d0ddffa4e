#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runners/limits.h"
#include "shoal/runners/config.h"

namespace shoal {

// The values that a setting may have: of a list each element, of a duration its seconds, of a word
// its number of bytes. Both bounds are included, but the lower one where it says `above`. NaN is in
// no range.
struct Range {
  double low, high;
  bool above = false;

  bool includes(double number) const {
    return (above ? number > low : number >= low) && number <= high;
  }
};

inline constexpr double kMostNumber = 1e9;  // where nothing suggests a smaller bound

constexpr Range within(double low, double high) { return {low, high}; }
constexpr Range above_0(double high = kMostNumber) { return {0, high, true}; }
inline constexpr Range kShare{0, 1};
inline constexpr Range kRate{0, 1, true};  // of learning
inline constexpr Range kCount{1, kMostSteps};
inline constexpr Range kAnySign{-kMostNumber, kMostNumber};
inline constexpr Range kAnyNumber{-std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::infinity()};

// The range of a setting that names none.
template <std::integral T>
constexpr Range default_range(T) {
  return {0, kMostSteps};
}
constexpr Range default_range(double) { return {0, kMostNumber}; }
inline Range default_range(std::chrono::milliseconds) { return above_0(); }
inline Range default_range(const std::vector<std::int64_t>&) { return {0, kMostSteps}; }
inline Range default_range(const std::string&) { return {0, 4096}; }

// Throws Error for the first setting that is not in its range: "<key>: found <value>, expected
// ...".
void check_ranges(const Config& config);

}  // namespace shoal
