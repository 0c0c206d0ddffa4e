#include "shoal/core/finite.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

namespace shoal {

namespace {

// Without a branch, in several lanes, so that the compiler uses vectors: adding one to an exponent
// of ones alone sets the bit of the sign.
template <class Bits, class Number>
std::int64_t find_not_finite(const Number* x, std::int64_t n, Bits one) {
  constexpr std::size_t kLanes = 16;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  std::array<Bits, kLanes> any{};
  std::int64_t i = 0;
  for (; i + std::int64_t{kLanes} <= n; i += kLanes)
    for (std::size_t k = 0; k < kLanes; ++k)
      any[k] |= (std::bit_cast<Bits>(x[i + static_cast<std::int64_t>(k)]) & ~kSign) + one;
  for (; i < n; ++i) any[0] |= (std::bit_cast<Bits>(x[i]) & ~kSign) + one;
  for (std::size_t k = 1; k < kLanes; ++k) any[0] |= any[k];
  if ((any[0] & kSign) == 0) return n;
  i = 0;
  while (std::isfinite(x[i])) ++i;
  return i;
}

}  // namespace

std::int64_t first_not_finite(const float* x, std::int64_t n) {
  return find_not_finite(x, n, std::uint32_t{1} << 23);
}

std::int64_t first_not_finite(const double* x, std::int64_t n) {
  return find_not_finite(x, n, std::uint64_t{1} << 52);
}

const char* name_not_finite(double x) { return std::isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf"; }

}  // namespace shoal
