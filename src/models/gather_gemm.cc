#include "src/models/gather_gemm.h"

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "src/core/divide_up.h"
#include "src/models/amx_gather.h"
#include "src/models/vector_math.h"

namespace shoal {

namespace {

constexpr std::int64_t kBlock = GatherGemm::kBlock;
// Rows of the largest tile. Its sums, of 16 outputs each, and the weights of one input fill the
// registers: 16 of 8 numbers with AVX2, 32 of 16 with AVX-512, where 12 sums hide the latency.
constexpr std::size_t kTileRows2 = 6, kTileRows512 = 12;

struct Tile {
  std::array<const float*, kTileRows512> x;
  std::array<float*, kTileRows512> y;
};

// An output adds up its products in the same order for every width and number of rows.
template <int kWidth, std::size_t kCount>
SHOAL_INLINE void compute(const Tile& tile, const RowLayout& row, const float* w, const float* bias,
                          bool relu) {
  using V = typename Lanes<kWidth>::Float;
  constexpr int kVecs = kBlock / kWidth;
  V sum[kCount][kVecs];
  for (auto& s : sum)
    for (int v = 0; v < kVecs; ++v) load_lanes(s[v], bias + v * kWidth);
  for (std::int64_t s = 0; s < row.segments; ++s) {
    const float* x[kCount];
    for (std::size_t r = 0; r < kCount; ++r) x[r] = tile.x[r] + s * row.stride;
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < row.length; ++i, w += kBlock) {
      V weight[kVecs];
      for (int v = 0; v < kVecs; ++v) load_lanes(weight[v], w + v * kWidth);
      for (std::size_t r = 0; r < kCount; ++r)
        for (int v = 0; v < kVecs; ++v) sum[r][v] += weight[v] * x[r][i];
    }
  }
  for (std::size_t r = 0; r < kCount; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      if (relu) sum[r][v] = sum[r][v] < V{} ? V{} : sum[r][v];  // propagates NaN
      store_lanes(tile.y[r] + v * kWidth, sum[r][v]);
    }
  }
}

using TileFunction = void (*)(const Tile&, const RowLayout&, const float*, const float*, bool);

template <std::size_t kCount>
SHOAL_AVX512 void tile_avx512(const Tile& tile, const RowLayout& row, const float* w,
                              const float* bias, bool relu) {
  compute<16, kCount>(tile, row, w, bias, relu);
}

template <std::size_t kCount>
SHOAL_TARGET("avx2,fma")
void tile_avx2(const Tile& tile, const RowLayout& row, const float* w, const float* bias,
               bool relu) {
  compute<8, kCount>(tile, row, w, bias, relu);
}

template <std::size_t kCount>
void tile_portable(const Tile& tile, const RowLayout& row, const float* w, const float* bias,
                   bool relu) {
  compute<8, kCount>(tile, row, w, bias, relu);
}

// The functions for 1, 2, ... rows.
template <std::size_t... kIndex>
std::vector<TileFunction> tiles_avx512(std::index_sequence<kIndex...>) {
  return {tile_avx512<kIndex + 1>...};
}
template <std::size_t... kIndex>
std::vector<TileFunction> tiles(std::index_sequence<kIndex...>) {
  return {(has_avx2() ? tile_avx2<kIndex + 1> : tile_portable<kIndex + 1>)...};
}

const std::vector<TileFunction> kTiles =
    has_avx512() ? tiles_avx512(std::make_index_sequence<kTileRows512>())
                 : tiles(std::make_index_sequence<kTileRows2>());

}  // namespace

bool GatherGemm::is_fast() { return has_avx2(); }

GatherGemm::GatherGemm(const at::Tensor& weight, const at::Tensor& bias, RowLayout row, bool relu,
                       bool bf16)
    : row_(row),
      blocks_(divide_up(weight.size(0), kBlock)),
      relu_(relu),
      bias_(static_cast<std::size_t>(blocks_ * kBlock), 0) {
  const auto out = weight.size(0), size = row.size();
  const auto weights = weight.contiguous(), biases = bias.contiguous();
  std::copy_n(biases.const_data_ptr<float>(), out, bias_.begin());
  const float* from = weights.const_data_ptr<float>();
  if (bf16 && fits_amx_gather(row)) {
    bf16_weight_.resize(static_cast<std::size_t>(blocks_ * size / 2));
    for (std::int64_t o = 0; o < out; ++o) {
      auto* to = bf16_weight_.data() + o / kBlock * size / 2;
      for (std::int64_t i = 0; i < size; ++i)
        to[i / 2].weights[o % kBlock][i % 2] = c10::BFloat16(*from++).x;
    }
    return;
  }
  weight_.resize(static_cast<std::size_t>(blocks_ * size * kBlock));
  for (std::int64_t o = 0; o < out; ++o) {
    float* to = weight_.data() + o / kBlock * size * kBlock + o % kBlock;
    for (std::int64_t i = 0; i < size; ++i, ++from)
      to[i * kBlock] = bf16 ? static_cast<float>(c10::BFloat16(*from)) : *from;
  }
}

void GatherGemm::run(const float* x, std::span<const Place> rows, float* y, std::int64_t from,
                     std::int64_t to) const {
  if (multiplies_bf16())
    return amx_gather({row_, x, rows, bf16_weight_.data(), bias_.data(), relu_, y, from, to});
  for (auto block = from; block < to; ++block) {
    const float* w = weight_.data() + block * row_.size() * kBlock;
    const float* bias = bias_.data() + block * kBlock;
    for (std::size_t first = 0; first < rows.size(); first += kTiles.size()) {
      const auto count = std::min(kTiles.size(), rows.size() - first);
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
