#pragma once

#include <cstdint>
#include <cstring>

#include "src/core/cpu_features.h"

// Vectorized functions for any number of lanes, with relative errors of a few 1e-7. Callers must be
// compiled for their instruction set.
namespace shoal {

// One specialisation for each width: GCC does not accept a template parameter as vector size.
template <int kWidth>
struct Lanes;
#define SHOAL_LANES(WIDTH)                                              \
  template <>                                                           \
  struct Lanes<WIDTH> {                                                 \
    using Float = float __attribute__((vector_size((WIDTH)*4)));        \
    using Int = std::int32_t __attribute__((vector_size((WIDTH)*4)));   \
    using Word = std::uint32_t __attribute__((vector_size((WIDTH)*4))); \
    using Wide = std::uint64_t __attribute__((vector_size((WIDTH)*8))); \
  };
SHOAL_LANES(4)
SHOAL_LANES(8)
SHOAL_LANES(16)
#undef SHOAL_LANES

template <class To, class From>
SHOAL_INLINE void reinterpret(To& to, const From& from) {
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
}

template <class V>
SHOAL_INLINE void load_lanes(V& v, const float* p) {
  std::memcpy(&v, p, sizeof v);
}
template <class V>
SHOAL_INLINE void store_lanes(float* p, const V& v) {
  std::memcpy(p, &v, sizeof v);
}

// e^x in place, with x clamped to [-87, 88]; propagates NaN.
template <int kWidth>
SHOAL_INLINE void exp_lanes(typename Lanes<kWidth>::Float& x) {
  using V = typename Lanes<kWidth>::Float;
  using I = typename Lanes<kWidth>::Int;
  const V most = V{} + 88.0F, least = V{} - 87.0F;
  x = x > most ? most : x;
  x = x < least ? least : x;
  // x = k ln 2 + r, and ln 2 is taken in two parts. Adding 1.5 * 2^23 rounds to the nearest
  // integer; with 127 more, the low bits are the exponent of 2^k.
  constexpr float kRound = 12582912.0F + 127;
  const V shifted = x * 1.44269504F + kRound;
  const V k = shifted - kRound;
  const V r = (x - k * 0.693359375F) + k * 2.12194440e-4F;
  V e = r * (1.0F / 5040) + 1.0F / 720;
  e = e * r + 1.0F / 120;
  e = e * r + 1.0F / 24;
  e = e * r + 1.0F / 6;
  e = e * r + 0.5F;
  e = e * r + 1.0F;
  e = e * r + 1.0F;
  I bits;
  reinterpret(bits, shifted);
  bits <<= 23;
  V scale;
  reinterpret(scale, bits);
  x = e * scale;
}

// ln x in place, for normal numbers above 0.
template <int kWidth>
SHOAL_INLINE void log_lanes(typename Lanes<kWidth>::Float& x) {
  using V = typename Lanes<kWidth>::Float;
  using I = typename Lanes<kWidth>::Int;
  constexpr std::int32_t kRootHalf =
      0x3F3504F3;  // sqrt(1/2): x = 2^k m with m in [that, twice that)
  I bits;
  reinterpret(bits, x);
  bits -= kRootHalf;
  const I k = bits >> 23;
  bits = (bits & 0x7FFFFF) + kRootHalf;
  V m;
  reinterpret(m, bits);
  // ln m = 2 artanh((m - 1) / (m + 1))
  const V s = (m - 1.0F) / (m + 1.0F), z = s * s;
  V p = z * (2.0F / 9) + 2.0F / 7;
  p = p * z + 2.0F / 5;
  p = p * z + 2.0F / 3;
  p = p * z + 2.0F;
  x = __builtin_convertvector(k, V) * 0.693147181F + p * s;
}

// cos and sin of 2 pi u, for u in [0, 1].
template <int kWidth>
SHOAL_INLINE void circle_lanes(const typename Lanes<kWidth>::Float& u,
                               typename Lanes<kWidth>::Float& cosine,
                               typename Lanes<kWidth>::Float& sine) {
  using V = typename Lanes<kWidth>::Float;
  using I = typename Lanes<kWidth>::Int;
  const V shifted = u * 4.0F + 12582912.0F;  // the nearest quarter of the circle
  const V r = (u * 4.0F - (shifted - 12582912.0F)) * 1.57079633F, z = r * r;
  V s = z * (-1.0F / 5040) + 1.0F / 120;
  s = (s * z - 1.0F / 6) * z * r + r;
  V c = z * (1.0F / 40320) - 1.0F / 720;
  c = ((c * z + 1.0F / 24) * z - 0.5F) * z + 1.0F;
  I quarter;
  reinterpret(quarter, shifted);
  const I odd = (quarter & 1) != 0, left = ((quarter + 1) & 2) != 0, below = (quarter & 2) != 0;
  const V along = odd ? s : c, across = odd ? c : s;
  cosine = left ? -along : along;
  sine = below ? -across : across;
}

// tanh x, and ln(1 - tanh(x)^2) without cancellation, both from e = exp(-2|x|).
template <int kWidth>
SHOAL_INLINE void squash_lanes(const typename Lanes<kWidth>::Float& x,
                               typename Lanes<kWidth>::Float& tanh,
                               typename Lanes<kWidth>::Float& log_slope) {
  using V = typename Lanes<kWidth>::Float;
  const V size = x < 0.0F ? -x : x;
  V e = size * -2.0F;
  exp_lanes<kWidth>(e);
  const V y = (1.0F - e) / (1.0F + e);
  tanh = x < 0.0F ? -y : y;
  V rest = e + 1.0F;
  log_lanes<kWidth>(rest);
  log_slope = (0.693147181F - size - rest) * 2.0F;
}

}  // namespace shoal
