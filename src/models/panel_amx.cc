#include "src/core/cpu_features.h"
#include "src/models/panel_bf16.h"

#if SHOAL_X86_KERNELS
#include <ATen/cpu/Utils.h>
#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "src/core/divide_up.h"
#include "src/models/aligned_scratch.h"
#include "src/models/amx_tiles.h"
#include "src/models/bf16_pairs.h"
#include "src/models/panel_tile.h"

namespace shoal {
namespace {

constexpr std::int64_t kBand = 2 * kTile;  // rows that are multiplied at a time
static_assert(kPanel == 2 * kTile);

// Adds to the square a [kBand][pairs] times b [pairs][kPanel], where pairs is a multiple of kTile.
// a_row: pairs between rows.
SHOAL_AMX void add_band(const std::uint32_t* a, std::int64_t a_row, const std::uint32_t* b,
                        std::int64_t pairs) {
  for (std::int64_t k = 0; k < pairs; k += kTile)
    add_to_square(a + k, a_row * 4, b + k * kPanel, kPanel * 4, kTile * 4);
}

template <int kRows>
SHOAL_AMX void store_rows(const PanelProduct& p, std::int64_t m, const float* from) {
  __m512 sum[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    const auto bias = _mm512_set1_ps(p.bias ? p.bias[m + r] : 0.0F);
    for (int v = 0; v < 2; ++v)
      sum[r][v] = _mm512_add_ps(bias, _mm512_loadu_ps(from + r * kPanel + v * kWide));
  }
  store_tile<kWide>(p, m, 0, sum);
}

// Rows [first, first + kBand) of a as far as there are any, in pairs. to_row: pairs between rows.
template <Part kPart>
SHOAL_AMX void pair_band(const PanelProduct& p, std::int64_t first, std::int64_t pairs,
                         std::uint32_t* to, std::int64_t to_row) {
  for (auto m = first; m < std::min(first + kBand, p.rows); ++m, to += to_row) {
    const float* row = p.a + m * p.a_row;
    for (std::int64_t block = 0; block < p.blocks; ++block)
      pair_neighbours<kPart>(row + block * p.a_block, p.steps, to + block * (p.steps / 2));
    std::fill(to + divide_up(p.blocks * p.steps, 2), to + pairs, 0U);
  }
}

template <Part kPart>
SHOAL_AMX void pair_panel(const float* from, std::int64_t steps, std::int64_t pairs,
                          std::uint32_t* to) {
  pair_rows<kPart>(from, kPanel, steps, to);
  std::fill(to + divide_up(steps, 2) * kPanel, to + pairs * kPanel, 0U);
}

// kSplit: each factor is the sum of two numbers in bfloat16, and the product of the low ones, of
// 2^-18, is left out.
template <bool kSplit>
SHOAL_AMX void product_amx(const PanelProduct& p) {
  if (p.a_step != 1) return panel_avx512_bf16()->product(p);
  const auto steps = p.blocks * p.steps, pairs = divide_up(divide_up(steps, 2), kTile) * kTile;
  const auto both = (kSplit ? 2 : 1) * pairs;  // the high parts, then the low ones
  thread_local AlignedScratch<std::uint32_t> scratch;
  auto* const b = scratch.take((p.panels * kPanel + 2 * kBand) * both);
  auto *a = b + p.panels * kPanel * both, *next = a + kBand * both;
  for (std::int64_t i = 0; i < p.panels; ++i) {
    auto* const panel = b + i * kPanel * both;
    pair_panel<Part::kRounded>(p.b + i * p.b_panel, steps, pairs, panel);
    if constexpr (kSplit)
      pair_panel<Part::kRest>(p.b + i * p.b_panel, steps, pairs, panel + pairs * kPanel);
  }
  const auto prepare = [&](std::int64_t band, std::uint32_t* to) SHOAL_AMX {
    pair_band<Part::kRounded>(p, band, pairs, to, both);
    if constexpr (kSplit) pair_band<Part::kRest>(p, band, pairs, to + pairs, both);
  };

  alignas(64) float sums[kBand * kPanel];
  const ConfiguredTiles tiles;
  prepare(0, a);
  for (std::int64_t band = 0; band < p.rows; band += kBand) {
    // One band ahead, because tiles wait for what was stored just before they are loaded.
    prepare(band + kBand, next);
    const auto rows = std::min(kBand, p.rows - band);
    for (std::int64_t i = 0; i < p.panels; ++i) {
      const auto* const panel = b + i * kPanel * both;
      clear_square();
      add_band(a, both, panel, pairs);
      if constexpr (kSplit) {
        add_band(a + pairs, both, panel, pairs);
        add_band(a, both, panel + pairs * kPanel, pairs);
      }
      store_square(sums, kPanel);
      const auto one = panel_of(p, i);
      std::int64_t r = 0;
      for (; r + 4 <= rows; r += 4) store_rows<4>(one, band + r, sums + r * kPanel);
      for (; r < rows; ++r) store_rows<1>(one, band + r, sums + r * kPanel);
    }
    std::swap(a, next);
  }
}

SHOAL_AMX std::int64_t multiply_add_amx(std::int64_t times) {
  const ConfiguredTiles tiles;
  for (std::int64_t t = 0; t < times; ++t) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 6);
    _tile_dpbf16ps(2, 4, 6);
    _tile_dpbf16ps(3, 4, 6);
  }
  constexpr std::int64_t kOperations = 2 * kTile * kTile * kTileDepth;
  return times * 4 * kOperations;
}

bool has_amx_bf16() {
  const auto all = at::cpu::get_cpu_capabilities();
  const auto found = all.find("amx_bf16");
  return found != all.end() && found->second.toBool();
}

}  // namespace

const PanelBf16* panel_amx() {
  static const PanelBf16 kKernels{"AMX", product_amx<false>, product_amx<true>, multiply_add_amx};
  // Linux grants the tiles' registers to a process that asks, and to those that it forks.
  static const bool kHas = panel_avx512_bf16() && has_amx_bf16() && at::cpu::init_amx();
  return kHas ? &kKernels : nullptr;
}

}  // namespace shoal

#else

namespace shoal {

const PanelBf16* panel_amx() { return nullptr; }

}  // namespace shoal

#endif
