#pragma once

#include "src/core/cpu_features.h"

#if SHOAL_X86_KERNELS
#include <immintrin.h>

#include <cstdint>

namespace shoal {

// Needed by every function with these instructions, because inlining requires equal targets.
#define SHOAL_BF16 SHOAL_TARGET("avx512bf16,avx512bw,avx512f,avx512dq,avx512vl,avx2,fma")

constexpr std::int64_t kWide = 16;  // numbers of a vector

inline __mmask16 first_lanes(std::int64_t n) {
  return static_cast<__mmask16>(n >= kWide ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1);
}

// x minus x rounded to bfloat16.
SHOAL_BF16 inline __m512 rounded_off(__m512 x) {
  // Without a mask, g++ 12 warns of the lanes that one would leave out.
  const auto rounded = _mm512_maskz_cvtepu16_epi32(0xFFFF, (__m256i)_mm512_cvtneps_pbh(x));
  return x - (__m512)_mm512_maskz_slli_epi32(0xFFFF, rounded, 16);
}

// kRounded: numbers rounded to bfloat16. kRest: their rounding errors, in bfloat16, too.
enum class Part : std::uint8_t { kRounded, kRest };

template <Part kPart>
SHOAL_BF16 inline __m512i convert(__m512 high, __m512 low) {
  if constexpr (kPart == Part::kRest)
    return (__m512i)_mm512_cvtne2ps_pbh(rounded_off(high), rounded_off(low));
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// n pairs of even[i] and odd[i], where odd may be null.
template <Part kPart = Part::kRounded>
SHOAL_BF16 inline void pair_up(const float* even, const float* odd, std::int64_t n,
                               std::uint32_t* to) {
  const auto order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                      23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (std::int64_t i = 0; i < n; i += kWide) {
    const auto lanes = first_lanes(n - i);
    const auto low = _mm512_maskz_loadu_ps(lanes, even + i);
    const auto high = odd ? _mm512_maskz_loadu_ps(lanes, odd + i) : _mm512_setzero_ps();
    const auto both = convert<kPart>(high, low);
    _mm512_mask_storeu_epi32(to + i, lanes, _mm512_permutexvar_epi16(order, both));
  }
}

// Converts n consecutive numbers to pairs.
template <Part kPart = Part::kRounded>
SHOAL_BF16 inline void pair_neighbours(const float* from, std::int64_t n, std::uint32_t* to) {
  std::int64_t i = 0;
  for (; i + 2 * kWide <= n; i += 2 * kWide, to += kWide) {
    const auto low = _mm512_loadu_ps(from + i), high = _mm512_loadu_ps(from + i + kWide);
    _mm512_storeu_si512(to, convert<kPart>(high, low));
  }
  if (i < n) {
    const auto low = _mm512_maskz_loadu_ps(first_lanes(n - i), from + i);
    const auto high = _mm512_maskz_loadu_ps(first_lanes(n - i - kWide), from + i + kWide);
    _mm512_mask_storeu_epi32(to, first_lanes((n - i + 1) / 2), convert<kPart>(high, low));
  }
}

// Two rows of b [steps][width] after the other in pairs; an odd last row is paired with zero.
template <Part kPart = Part::kRounded>
SHOAL_BF16 inline void pair_rows(const float* b, std::int64_t width, std::int64_t steps,
                                 std::uint32_t* to) {
  for (std::int64_t k = 0; k < steps; k += 2)
    pair_up<kPart>(b + k * width, k + 1 < steps ? b + (k + 1) * width : nullptr, width,
                   to + k / 2 * width);
}

}  // namespace shoal

#endif
