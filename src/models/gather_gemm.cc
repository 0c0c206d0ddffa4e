#include "src/models/gather_gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/models/vectors.h"

namespace shoal {

namespace {

// Rows of a tile, each with two vectors of outputs: 12 sums, 2 weights and 1 input fill the 16
// registers.
constexpr int kRows = 6;

struct Tile {
  const float* x[kRows];
  float* y[kRows];
};

template <int kCount>
SHOAL_INLINE void compute(const Tile& tile, const RowLayout& row, const float* w, const float* bias,
                          bool relu) {
  Vec sum[kCount][2];
  for (auto& s : sum)
    for (int v = 0; v < 2; ++v) load(s[v], bias + v * kLanes);
  for (std::int64_t s = 0; s < row.segments; ++s) {
    const float* x[kCount];
    for (int r = 0; r < kCount; ++r) x[r] = tile.x[r] + s * row.stride;
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < row.length; ++i, w += 2 * kLanes) {
      Vec w0, w1;
      load(w0, w), load(w1, w + kLanes);
      for (int r = 0; r < kCount; ++r) {
        sum[r][0] += w0 * x[r][i];
        sum[r][1] += w1 * x[r][i];
      }
    }
  }
  for (int r = 0; r < kCount; ++r) {
    for (int v = 0; v < 2; ++v) {
      if (relu) sum[r][v] = sum[r][v] < Vec{} ? Vec{} : sum[r][v];  // propagates NaN
      store(tile.y[r] + v * kLanes, sum[r][v]);
    }
  }
}

using TileFunction = void (*)(const Tile&, const RowLayout&, const float*, const float*, bool);

template <int kCount>
SHOAL_TARGET("avx2,fma")
void tile_avx2(const Tile& tile, const RowLayout& row, const float* w, const float* bias,
               bool relu) {
  compute<kCount>(tile, row, w, bias, relu);
}

template <int kCount>
void tile_portable(const Tile& tile, const RowLayout& row, const float* w, const float* bias,
                   bool relu) {
  compute<kCount>(tile, row, w, bias, relu);
}

using TileFunctions = std::array<TileFunction, kRows>;  // for 1, 2, ... rows

template <std::size_t... kIndex>
TileFunctions tile_functions(std::index_sequence<kIndex...>) {
  return {(has_avx2() ? tile_avx2<kIndex + 1> : tile_portable<kIndex + 1>)...};
}

const TileFunctions kTiles = tile_functions(std::make_index_sequence<kRows>());

}  // namespace

bool GatherGemm::is_fast() { return has_avx2(); }

GatherGemm::GatherGemm(const float* weight, const float* bias, std::int64_t out, RowLayout row,
                       bool relu)
    : row_(row),
      blocks_((out + kBlock - 1) / kBlock),
      relu_(relu),
      weight_(static_cast<std::size_t>(blocks_ * row.size() * kBlock), 0),
      bias_(static_cast<std::size_t>(blocks_ * kBlock), 0) {
  std::copy_n(bias, out, bias_.begin());
  for (std::int64_t o = 0; o < out; ++o) {
    float* to = weight_.data() + (o / kBlock) * row.size() * kBlock + o % kBlock;
    for (std::int64_t i = 0; i < row.size(); ++i) to[i * kBlock] = weight[o * row.size() + i];
  }
}

void GatherGemm::run(const float* x, std::span<const Place> rows, float* y, std::int64_t from,
                     std::int64_t to) const {
  for (auto block = from; block < to; ++block) {
    const float* w = weight_.data() + block * row_.size() * kBlock;
    const float* bias = bias_.data() + block * kBlock;
    for (std::size_t first = 0; first < rows.size(); first += kRows) {
      const auto count = std::min<std::size_t>(kRows, rows.size() - first);
      Tile tile{};
      for (std::size_t r = 0; r < count; ++r) {
        tile.x[r] = x + rows[first + r].x;
        tile.y[r] = y + rows[first + r].y + block * kBlock;
      }
      kTiles[count - 1](tile, row_, w, bias, relu_);
    }
  }
}

}  // namespace shoal
