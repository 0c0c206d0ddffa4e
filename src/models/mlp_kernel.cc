#include "src/models/mlp_kernel.h"

#include <algorithm>
#include <cstring>

#include "src/models/vectors.h"

namespace shoal {

namespace {

constexpr std::int64_t kChunk =
    24;  // rows that pass all layers together: few enough for the L1 cache
using IntVec = std::int32_t __attribute__((vector_size(kLanes * sizeof(float))));

// tanh x = sign(x) (1 - e) / (1 + e) with e = exp(-2 |x|); absolute error below 2e-7.
SHOAL_INLINE void tanh_lanes(float* p) {
  Vec x;
  load(x, p);
  IntVec bits;
  std::memcpy(&bits, &x, sizeof x);
  const IntVec sign = bits & static_cast<std::int32_t>(0x80000000);
  bits ^= sign;
  Vec magnitude;
  std::memcpy(&magnitude, &bits, sizeof bits);
  const Vec limit = Vec{} + 15.0F;                    // tanh is 1 in float32 from 9.02 on
  magnitude = limit < magnitude ? limit : magnitude;  // propagates NaN

  // exp(-2|x|) = 2^k 2^f with an integer k and |f| <= 1/2. Adding 1.5 * 2^23 rounds to the nearest
  // integer; with 128 more, the low bits are k + 128, the exponent of 2^(k + 1).
  constexpr float kRound = 12582912.0F + 128;
  const Vec t = magnitude * -2.88539008177793F;  // -2 / ln 2
  const Vec shifted = t + kRound;
  const Vec f = t - (shifted - kRound);
  Vec e = f * 1.54035304e-4F + 1.33335581e-3F;  // Taylor: (ln 2)^n / n!
  e = e * f + 9.61812911e-3F;
  e = e * f + 5.55041087e-2F;
  e = e * f + 2.40226507e-1F;
  e = e * f + 6.93147181e-1F;
  e = e * f + 1.0F;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits <<= 23;
  Vec scale;
  std::memcpy(&scale, &bits, sizeof scale);
  // Multiplies instead of adding to the exponent, which would turn some NaNs into numbers.
  const Vec twice = e * scale;

  const Vec y = (2.0F - twice) / (2.0F + twice);
  std::memcpy(&bits, &y, sizeof y);
  bits |= sign;
  std::memcpy(p, &bits, sizeof bits);
}

// kRows rows times kVecs vectors of outputs. Every sum runs over the inputs in order, for any kRows
// and kVecs.
template <int kRows, int kVecs>
SHOAL_INLINE void dense_block(const float* x, std::int64_t x_stride, const float* w,
                              const float* bias, std::int64_t in, std::int64_t padded, float* y) {
  Vec sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) load(sum[r][v], bias + v * kLanes);
  for (std::int64_t i = 0; i < in; ++i) {
    for (int v = 0; v < kVecs; ++v) {
      Vec weight;
      load(weight, w + i * padded + v * kLanes);
      for (int r = 0; r < kRows; ++r) sum[r][v] += weight * x[r * x_stride + i];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) store(y + r * padded + v * kLanes, sum[r][v]);
}

template <int kRows>
SHOAL_INLINE void dense_rows(const float* x, std::int64_t x_stride, const float* w,
                             const float* bias, std::int64_t in, std::int64_t padded, float* y) {
  std::int64_t o = 0;
  for (; o + 4 * kLanes <= padded; o += 4 * kLanes)
    dense_block<kRows, 4>(x, x_stride, w + o, bias + o, in, padded, y + o);
  for (; o < padded; o += kLanes)
    dense_block<kRows, 1>(x, x_stride, w + o, bias + o, in, padded, y + o);
}

SHOAL_INLINE void dense_layer(const float* x, std::int64_t x_stride, std::int64_t rows,
                              const float* w, const float* bias, std::int64_t in,
                              std::int64_t padded, bool tanh, float* y) {
  std::int64_t r = 0;
  if (padded < 4 * kLanes) {  // a narrow layer has one sum per row: take more rows at once
    for (; r + 8 <= rows; r += 8)
      dense_rows<8>(x + r * x_stride, x_stride, w, bias, in, padded, y + r * padded);
  }
  for (; r + 3 <= rows; r += 3)
    dense_rows<3>(x + r * x_stride, x_stride, w, bias, in, padded, y + r * padded);
  for (; r < rows; ++r)
    dense_rows<1>(x + r * x_stride, x_stride, w, bias, in, padded, y + r * padded);
  if (tanh)
    for (std::int64_t i = 0; i < rows * padded; i += kLanes) tanh_lanes(y + i);
}

SHOAL_INLINE void tanh_all(float* p, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) tanh_lanes(p + i);
  float rest[kLanes] = {};
  std::copy(p + i, p + n, rest);
  tanh_lanes(rest);
  std::copy_n(rest, n - i, p + i);
}

using LayerFunction = void (*)(const float*, std::int64_t, std::int64_t, const float*, const float*,
                               std::int64_t, std::int64_t, bool, float*);

SHOAL_TARGET("avx2,fma")
void layer_avx2(const float* x, std::int64_t x_stride, std::int64_t rows, const float* w,
                const float* bias, std::int64_t in, std::int64_t padded, bool tanh, float* y) {
  dense_layer(x, x_stride, rows, w, bias, in, padded, tanh, y);
}

void layer_portable(const float* x, std::int64_t x_stride, std::int64_t rows, const float* w,
                    const float* bias, std::int64_t in, std::int64_t padded, bool tanh, float* y) {
  dense_layer(x, x_stride, rows, w, bias, in, padded, tanh, y);
}

SHOAL_TARGET("avx2,fma") void tanh_avx2(float* p, std::int64_t n) { tanh_all(p, n); }

const LayerFunction kLayer = has_avx2() ? layer_avx2 : layer_portable;

}  // namespace

void tanh_in_place(float* values, std::int64_t n) {
  if (has_avx2()) {
    tanh_avx2(values, n);
  } else {
    tanh_all(values, n);
  }
}

const char* MlpKernel::instructions() { return has_avx2() ? "AVX2" : "portable"; }

void MlpKernel::add_layer(const float* weight, const float* bias, std::int64_t in, std::int64_t out,
                          bool tanh) {
  Layer layer{in, out, (out + kLanes - 1) / kLanes * kLanes, tanh, {}, {}};
  layer.weight.assign(static_cast<std::size_t>(in * layer.padded), 0);
  layer.bias.assign(static_cast<std::size_t>(layer.padded), 0);
  for (std::int64_t o = 0; o < out; ++o) {
    layer.bias[static_cast<std::size_t>(o)] = bias[o];
    for (std::int64_t i = 0; i < in; ++i)
      layer.weight[static_cast<std::size_t>(i * layer.padded + o)] = weight[o * in + i];
  }
  widest_ = std::max(widest_, layer.padded);
  layers_.push_back(std::move(layer));
}

void MlpKernel::run(const float* x, std::int64_t rows, float* y) const {
  for (std::int64_t r = 0; r < rows; r += kChunk)
    run_chunk(x + r * in(), std::min(kChunk, rows - r), y + r * out());
}

void MlpKernel::run_chunk(const float* x, std::int64_t rows, float* y) const {
  thread_local std::vector<float> scratch[2];
  const float* from = x;
  std::int64_t stride = in();
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const auto& layer = layers_[l];
    auto& to = scratch[l % 2];
    if (to.size() < static_cast<std::size_t>(kChunk * widest_))
      to.resize(static_cast<std::size_t>(kChunk * widest_));
    kLayer(from, stride, rows, layer.weight.data(), layer.bias.data(), layer.in, layer.padded,
           layer.tanh, to.data());
    from = to.data();
    stride = layer.padded;
  }
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * stride, out(), y + r * out());
}

}  // namespace shoal
