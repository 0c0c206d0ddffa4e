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
SHOAL_AMX void multiply(const std::uint32_t* a, const GatherGemm::InputPair* weights,
                        std::int64_t pairs, float* sums) {
  constexpr std::int64_t kPair = sizeof(GatherGemm::InputPair);
  clear_square();
  for (std::int64_t k = 0; k < pairs; k += kTile)
    add_to_square<kRows, kColumns>(a + k, pairs * 4, weights + k, kPair, pairs * kPair);
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
      _mm512_storeu_ps(to + n, p.relu ? relu(sum) : sum);
    }
  }
}

}  // namespace

bool fits_amx_gather(const RowLayout& row) { return panel_amx() && row.length % kTileDepth == 0; }

SHOAL_AMX void amx_gather(const GatheredProduct& p) {
  const auto pairs = p.row.size() / 2;
  thread_local AlignedScratch<std::uint32_t> scratch;
  auto* const band = scratch.take(kBandRows * pairs);
  alignas(64) float sums[kBandRows * kSumColumns];
  const ConfiguredTiles tiles;
  for (std::size_t first = 0; first < p.rows.size(); first += kBandRows) {
    gather(p, first, band);
    const bool tall = p.rows.size() - first > kTile;
    for (auto block = p.from; block < p.to; block += 2) {
      const bool wide = block + 1 < p.to;
      const auto kernel = tall ? (wide ? multiply<2, 2> : multiply<2, 1>)
                               : (wide ? multiply<1, 2> : multiply<1, 1>);
      kernel(band, p.weights + block * pairs, pairs, sums);
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
