#include "src/models/amx_gather.h"

#include "shoal/core/error.h"
#include "src/core/cpu_features.h"

#if SHOAL_X86_KERNELS
#include <immintrin.h>

#include <algorithm>

#include "src/models/aligned_scratch.h"
#include "src/models/amx_tiles.h"
#include "src/models/bf16_pairs.h"
#include "src/models/panel_bf16.h"

namespace shoal {
namespace {

// Rows that are multiplied at a time, and columns of their sums.
constexpr std::int64_t kBandRows = 2 * kTile, kSumColumns = 2 * kTile;
static_assert(GatherGemm::kBlock == kTile);

// Rows [first, first + kBandRows) as far as there are any, in bfloat16, one after the other.
SHOAL_AMX void gather(const GatheredProduct& p, std::size_t first, std::uint32_t* to) {
  const auto end = std::min(first + kBandRows, p.rows.size());
  for (auto r = first; r < end; ++r)
    for (std::int64_t s = 0; s < p.row.segments; ++s, to += p.row.length / 2)
      pair_neighbours(p.x + p.rows[r].x + s * p.row.stride, p.row.length, to);
}

// sums [kBandRows][kSumColumns] of kRows tiles of rows and kColumns blocks.
template <int kRows, int kColumns>
SHOAL_AMX void multiply(const std::uint32_t* a, const std::uint16_t* weights, std::int64_t depth,
                        float* sums) {
  clear_square();
  asm volatile("" ::: "memory");  // g++ 12 does not know that loading a tile reads memory
  for (std::int64_t k = 0; k < depth; k += kTileDepth, a += kTile, weights += kTile * kTileDepth) {
    _tile_loadd(4, a, depth * 2);
    _tile_loadd(6, weights, 64);
    if constexpr (kColumns == 2) _tile_loadd(7, weights + depth * kTile, 64);
    if constexpr (kRows == 2) _tile_loadd(5, a + kTile * depth / 2, depth * 2);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns == 2) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRows == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kRows == 2 && kColumns == 2) _tile_dpbf16ps(3, 5, 7);
  }
  store_square(sums, kSumColumns);
}

// The rows of y that begin at block `block` of row `first`.
SHOAL_AMX void store(const GatheredProduct& p, std::size_t first, std::int64_t block,
                     std::int64_t blocks, const float* sums) {
  const auto end = std::min(first + kBandRows, p.rows.size());
  for (auto r = first; r < end; ++r, sums += kSumColumns) {
    float* to = p.y + p.rows[r].y + block * kTile;
    for (std::int64_t n = 0; n < blocks * kTile; n += kWide) {
      const auto sum =
          _mm512_add_ps(_mm512_load_ps(sums + n), _mm512_loadu_ps(p.bias + block * kTile + n));
      // max() returns its second operand if one is not a number.
      _mm512_storeu_ps(to + n,
                       p.relu ? _mm512_maskz_max_ps(0xFFFF, _mm512_setzero_ps(), sum) : sum);
    }
  }
}

}  // namespace

bool fits_amx_gather(const RowLayout& row) { return panel_amx() && row.length % kTileDepth == 0; }

SHOAL_AMX void amx_gather(const GatheredProduct& p) {
  const auto depth = p.row.size();
  thread_local AlignedScratch<std::uint32_t> scratch;
  auto* const band = scratch.take(kBandRows * depth / 2);
  alignas(64) float sums[kBandRows * kSumColumns];
  const ConfiguredTiles tiles;
  for (std::size_t first = 0; first < p.rows.size(); first += kBandRows) {
    gather(p, first, band);
    const bool tall = p.rows.size() - first > kTile;
    for (auto block = p.from; block < p.to; block += 2) {
      const auto* weights = p.weights + block * depth * kTile;
      const bool wide = block + 1 < p.to;
      const auto kernel = tall ? (wide ? multiply<2, 2> : multiply<2, 1>)
                               : (wide ? multiply<1, 2> : multiply<1, 1>);
      kernel(band, weights, depth, sums);
      store(p, first, block, wide ? 2 : 1, sums);
    }
  }
}

}  // namespace shoal

#else

namespace shoal {

bool fits_amx_gather(const RowLayout&) { return false; }

void amx_gather(const GatheredProduct&) {
  throw Error("amx_gather: this program has no kernels for x86");
}

}  // namespace shoal

#endif
