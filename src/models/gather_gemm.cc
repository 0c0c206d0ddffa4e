#include "src/models/gather_gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "src/models/vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shoal {

namespace {

// Rows of a tile, each with two vectors of outputs: 12 sums, 2 weights and 1 input (and 1 product
// of integers) fill the 16 registers there are.
constexpr int kRows = 6;
constexpr std::int64_t kBlock = GatherGemm<float>::kBlock;

template <class Number>
struct Tile {
  const Number* x[kRows];
  float scale[kRows];
  float* y[kRows];
};

template <class Number>
struct Block {
  const Number* weight;
  const float *scale, *bias;
  bool relu;
};

template <int kCount>
SHOAL_INLINE void compute(const Tile<float>& tile, const RowLayout& row,
                          const Block<float>& block) {
  Vec sum[kCount][2];
  for (auto& s : sum)
    for (int v = 0; v < 2; ++v) load(s[v], block.bias + v * kLanes);
  const float* w = block.weight;
  for (std::int64_t s = 0; s < row.segments; ++s) {
    const float* x[kCount];
    for (int r = 0; r < kCount; ++r) x[r] = tile.x[r] + s * row.stride;
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < row.length; ++i, w += kBlock) {
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
      if (block.relu) sum[r][v] = sum[r][v] < Vec{} ? Vec{} : sum[r][v];  // NaN stays
      store(tile.y[r] + v * kLanes, sum[r][v]);
    }
  }
}

SHOAL_INLINE void finish(const std::int32_t* sum, float scale, const Block<std::int16_t>& block,
                         float* y) {
  for (std::int64_t o = 0; o < kBlock; ++o) {
    const float value = static_cast<float>(sum[o]) * (block.scale[o] * scale) + block.bias[o];
    y[o] = value < 0 && block.relu ? 0 : value;
  }
}

template <int kCount>
SHOAL_INLINE void compute(const Tile<std::int16_t>& tile, const RowLayout& row,
                          const Block<std::int16_t>& block) {
  for (int r = 0; r < kCount; ++r) {
    std::int32_t sum[kBlock] = {};
    const auto* w = block.weight;
    for (std::int64_t s = 0; s < row.segments; ++s) {
      const auto* x = tile.x[r] + s * row.stride;
      for (std::int64_t i = 0; i < row.length; i += 2, w += 2 * kBlock)
        for (std::int64_t o = 0; o < kBlock; ++o)
          sum[o] += x[i] * w[2 * o] + x[i + 1] * w[2 * o + 1];
    }
    finish(sum, tile.scale[r], block, tile.y[r]);
  }
}

template <class Number>
using TileFunction = void (*)(const Tile<Number>&, const RowLayout&, const Block<Number>&);

template <int kCount, class Number>
void plain(const Tile<Number>& tile, const RowLayout& row, const Block<Number>& block) {
  compute<kCount>(tile, row, block);
}

#if defined(__x86_64__)
template <int kCount>
__attribute__((target("avx2,fma"))) void avx2(const Tile<float>& tile, const RowLayout& row,
                                              const Block<float>& block) {
  compute<kCount>(tile, row, block);
}

// Pairs of inputs and weights are multiplied and added in one instruction, which no compiler finds.
template <int kCount>
__attribute__((target("avx2,fma"))) void avx2(const Tile<std::int16_t>& tile, const RowLayout& row,
                                              const Block<std::int16_t>& block) {
  __m256i sum[kCount][2];
  for (auto& s : sum) s[0] = s[1] = _mm256_setzero_si256();
  const auto* w = reinterpret_cast<const __m256i*>(block.weight);
  for (std::int64_t s = 0; s < row.segments; ++s) {
    const std::int16_t* x[kCount];
    for (int r = 0; r < kCount; ++r) x[r] = tile.x[r] + s * row.stride;
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < row.length; i += 2, w += 2) {
      const auto w0 = _mm256_loadu_si256(w), w1 = _mm256_loadu_si256(w + 1);
      for (int r = 0; r < kCount; ++r) {
        std::int32_t pair;
        std::memcpy(&pair, x[r] + i, sizeof pair);
        const auto inputs = _mm256_set1_epi32(pair);
        sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(w0, inputs));
        sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(w1, inputs));
      }
    }
  }
  for (int r = 0; r < kCount; ++r) {
    std::int32_t sums[kBlock];
    std::memcpy(sums, sum[r], sizeof sums);
    finish(sums, tile.scale[r], block, tile.y[r]);
  }
}
#endif

template <class Number, std::size_t... kIndex>
std::array<TileFunction<Number>, kRows> tile_functions(std::index_sequence<kIndex...>) {
#if defined(__x86_64__)
  if (has_avx2()) return {avx2<kIndex + 1>...};
#endif
  return {plain<kIndex + 1, Number>...};
}

// For 1, 2, ... rows.
template <class Number>
const std::array<TileFunction<Number>, kRows> kTiles =
    tile_functions<Number>(std::make_index_sequence<kRows>());

// The largest factor that makes integers of a row of weights: within 16 bits, and their sums of
// products within 32.
double largest_factor(const float* w, std::int64_t n, std::int16_t max_input) {
  double top = 0, sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    top = std::max<double>(top, std::abs(w[i]));
    sum += std::abs(w[i]);
  }
  if (top == 0) return 1;
  constexpr double kMaxWeight = std::numeric_limits<std::int16_t>::max(),
                   kMaxSum = std::numeric_limits<std::int32_t>::max();
  // Rounding may add half a unit to each weight.
  return std::min(kMaxWeight / top, (kMaxSum / max_input - 0.5 * static_cast<double>(n)) / sum);
}

using IntVec = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
using ShortVec = std::int16_t __attribute__((vector_size(kLanes * sizeof(std::int16_t))));

SHOAL_INLINE float round_all(const float* y, std::int64_t n, std::int16_t max, std::int16_t* x) {
  const auto whole = n / kLanes * kLanes;
  Vec tops{}, v;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    load(v, y + i);
    tops = v > tops ? v : tops;
  }
  float top = 0;
  for (std::int64_t k = 0; k < kLanes; ++k) top = std::max(top, tops[k]);
  for (auto i = whole; i < n; ++i) top = std::max(top, y[i]);
  const float factor = top > 0 ? static_cast<float>(max) / top : 0;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    load(v, y + i);
    const auto integers = __builtin_convertvector(v * factor + 0.5F, IntVec);
    const auto shorts = __builtin_convertvector(integers, ShortVec);
    std::memcpy(x + i, &shorts, sizeof shorts);
  }
  for (auto i = whole; i < n; ++i) x[i] = static_cast<std::int16_t>(y[i] * factor + 0.5F);
  return top / static_cast<float>(max);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float round_all_avx2(const float* y, std::int64_t n,
                                                         std::int16_t max, std::int16_t* x) {
  return round_all(y, n, max, x);
}
#endif

}  // namespace

bool gather_gemm_is_fast() {
  // Vectors of AVX-512 are twice as wide, and oneDNN uses them.
  return has_avx2() && !__builtin_cpu_supports("avx512f");
}

template <class Number>
GatherGemm<Number>::GatherGemm(const float* weight, const float* bias, std::int64_t out,
                               RowLayout row, bool relu, Number max_input)
    : row_(row),
      blocks_((out + kBlock - 1) / kBlock),
      relu_(relu),
      weight_(static_cast<std::size_t>(blocks_ * row.size() * kBlock), 0),
      scale_(static_cast<std::size_t>(blocks_ * kBlock), 1),
      bias_(static_cast<std::size_t>(blocks_ * kBlock), 0) {
  std::copy_n(bias, out, bias_.begin());
  pack(weight, out, max_input);
}

template <>
void GatherGemm<float>::pack(const float* weight, std::int64_t out, float /*max_input*/) {
  for (std::int64_t o = 0; o < out; ++o) {
    float* to = weight_.data() + (o / kBlock) * row_.size() * kBlock + o % kBlock;
    for (std::int64_t i = 0; i < row_.size(); ++i) to[i * kBlock] = weight[o * row_.size() + i];
  }
}

template <>
void GatherGemm<std::int16_t>::pack(const float* weight, std::int64_t out, std::int16_t max_input) {
  for (std::int64_t o = 0; o < out; ++o) {
    const float* from = weight + o * row_.size();
    const auto factor = largest_factor(from, row_.size(), max_input);
    if (!std::isfinite(factor) || factor == 0) {  // diverged: so are the outputs
      scale_[static_cast<std::size_t>(o)] = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    scale_[static_cast<std::size_t>(o)] = static_cast<float>(1 / factor);
    auto* to = weight_.data() + (o / kBlock) * row_.size() * kBlock + o % kBlock * 2;
    for (std::int64_t i = 0; i < row_.size(); ++i)
      to[i / 2 * 2 * kBlock + i % 2] = static_cast<std::int16_t>(std::lrint(from[i] * factor));
  }
}

template <class Number>
void GatherGemm<Number>::run(const Input& input, const std::vector<std::int64_t>& offsets, float* y,
                             std::int64_t from, std::int64_t to) const {
  const auto rows = static_cast<std::int64_t>(offsets.size());
  for (auto b = from; b < to; ++b) {
    const Block<Number> block{weight_.data() + b * row_.size() * kBlock, scale_.data() + b * kBlock,
                              bias_.data() + b * kBlock, relu_};
    for (std::int64_t first = 0; first < rows; first += kRows) {
      const auto count = std::min<std::int64_t>(kRows, rows - first);
      Tile<Number> tile{};
      for (std::int64_t r = 0; r < count; ++r) {
        tile.x[r] = input.x + offsets[static_cast<std::size_t>(first + r)];
        if (input.scale) tile.scale[r] = input.scale[(first + r) * input.scale_step];
        tile.y[r] = y + (first + r) * row_of_y() + b * kBlock;
      }
      kTiles<Number>[static_cast<std::size_t>(count - 1)](tile, row_, block);
    }
  }
}

template class GatherGemm<float>;
template class GatherGemm<std::int16_t>;

float to_integers(const float* y, std::int64_t n, std::int16_t max, std::int16_t* x) {
#if defined(__x86_64__)
  if (has_avx2()) return round_all_avx2(y, n, max, x);
#endif
  return round_all(y, n, max, x);
}

}  // namespace shoal
