#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/core/divide_up.h"

namespace shoal {

// A work space that begins with a cache line and grows as needed.
template <class Number>
class AlignedScratch {
 public:
  // Room for n numbers, which holds any values. What was taken before is no longer valid.
  Number* take(std::int64_t n) {
    const auto wanted = static_cast<std::size_t>(divide_up(n, kNumbers));
    if (lines_.size() < wanted) lines_.resize(wanted);
    return lines_.data()->numbers;
  }

 private:
  static constexpr std::int64_t kLine = 64;  // bytes
  static constexpr std::int64_t kNumbers = kLine / std::int64_t{sizeof(Number)};
  struct alignas(kLine) Line {
    Number numbers[kNumbers];
  };
  std::vector<Line> lines_;
};

}  // namespace shoal
