#include "src/models/panel_bf16.h"

#include "src/core/cpu_features.h"

#if SHOAL_X86_KERNELS
#include <immintrin.h>

#include "src/models/aligned_scratch.h"
#include "src/models/bf16_pairs.h"
#include "src/models/panel_tile.h"

namespace shoal {
namespace {

constexpr int kTileRows = 12;  // the sums that fit into the registers, beside two vectors

// The rounded factors, in pairs of consecutive k (the first one in the low half), as the
// instruction multiplies and adds pairs. An odd last number is paired with zero.
struct Pairs {
  std::int64_t count;
  const std::uint32_t* a;
  std::int64_t a_row, a_pair;  // (m, pair) is at [m * a_row + pair * a_pair]
  const std::uint32_t* b;      // [count][kPanel]
};

SHOAL_BF16 Pairs pairs_of(const PanelProduct& p) {
  const auto steps = p.blocks * p.steps, count = (steps + 1) / 2;
  thread_local AlignedScratch<std::uint32_t> scratch;
  auto* b = scratch.take((kPanel + p.rows) * count);
  auto* a = b + kPanel * count;
  pair_rows(p.b, kPanel, steps, b);
  if (p.a_step == 1) {
    for (std::int64_t m = 0; m < p.rows; ++m)
      for (std::int64_t block = 0; block < p.blocks; ++block)
        pair_neighbours(p.a + m * p.a_row + block * p.a_block, p.steps,
                        a + m * count + block * (p.steps / 2));
    return {count, a, count, 1, b};
  }
  for (std::int64_t k = 0; k < steps; k += 2) {
    const float* even = p.a + k * p.a_step;
    pair_up(even, k + 1 < steps ? even + p.a_step : nullptr, p.rows, a + k / 2 * p.rows);
  }
  return {count, a, 1, p.rows, b};
}

template <int kRows, int kVecs>
SHOAL_BF16 void tile(const PanelProduct& p, const Pairs& pairs, std::int64_t m,
                     std::int64_t column) {
  __m512 sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) sum[r][v] = _mm512_set1_ps(p.bias ? p.bias[m + r] : 0.0F);
  const auto* a = pairs.a + m * pairs.a_row;
  const auto* b = pairs.b + column;
  for (std::int64_t k = 0; k < pairs.count; ++k, a += pairs.a_pair, b += kPanel) {
    __m512bh x[kVecs];
    for (int v = 0; v < kVecs; ++v) x[v] = (__m512bh)_mm512_loadu_si512(b + v * kWide);
    for (int r = 0; r < kRows; ++r) {
      const auto y = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[r * pairs.a_row]));
      for (int v = 0; v < kVecs; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], y, x[v]);
    }
  }
  store_tile<kWide>(p, m, column, sum);
}

template <int kVecs>
SHOAL_BF16 void columns(const PanelProduct& p, const Pairs& pairs, std::int64_t column) {
  std::int64_t m = 0;
  for (; m + kTileRows <= p.rows; m += kTileRows) tile<kTileRows, kVecs>(p, pairs, m, column);
  for (; m + 4 <= p.rows; m += 4) tile<4, kVecs>(p, pairs, m, column);
  for (; m < p.rows; ++m) tile<1, kVecs>(p, pairs, m, column);
}

SHOAL_BF16 void product(const PanelProduct& of_all) {
  for (std::int64_t i = 0; i < of_all.panels; ++i) {
    const auto p = panel_of(of_all, i);
    const auto pairs = pairs_of(p);
    if (p.columns > kWide)
      columns<2>(p, pairs, 0);
    else
      columns<1>(p, pairs, 0);
  }
}

SHOAL_BF16 std::int64_t multiply_add(std::int64_t times) {
  constexpr int kSums = 12;  // enough independent sums to hide latency
  __m512 sum[kSums];
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const auto halves = _mm512_set1_ps(0.5F);
  const auto x = _mm512_cvtne2ps_pbh(halves, halves);
  for (std::int64_t t = 0; t < times; ++t)
    for (auto& s : sum) s = _mm512_dpbf16_ps(s, x, x);
  float total = 0;
  for (const auto& s : sum) total += _mm512_cvtss_f32(s);
  return total > 0 ? times * kSums * kWide * 4 : 0;
}

}  // namespace

const PanelBf16* panel_avx512_bf16() {
  static const PanelBf16 kKernels{"AVX512-BF16", product, product, multiply_add};
  static const bool kHas = __builtin_cpu_supports("avx512bf16") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return kHas ? &kKernels : nullptr;
}

}  // namespace shoal

#else

namespace shoal {

const PanelBf16* panel_avx512_bf16() { return nullptr; }

}  // namespace shoal

#endif

namespace shoal {

const PanelBf16* panel_bf16() {
  if (const auto* amx = panel_amx()) return amx;
  return is_amd() ? panel_avx512_bf16() : nullptr;
}

}  // namespace shoal
