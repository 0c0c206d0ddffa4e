#include "src/models/mlp_kernel.h"

#include <algorithm>
#include <cstring>

#include "src/core/divide_up.h"
#include "src/models/vector_math.h"

namespace shoal {

namespace {

constexpr std::int64_t kLanes = 8;  // layers are padded to as many outputs
constexpr std::int64_t kChunk =
    24;  // rows that pass all layers together: few enough for the L1 cache

// tanh x = sign(x) (1 - e) / (1 + e) with e = exp(-2 |x|); absolute error below 2e-7.
template <int kWidth>
SHOAL_INLINE void tanh_at(float* p) {
  using V = typename Lanes<kWidth>::Float;
  using I = typename Lanes<kWidth>::Int;
  V x;
  load_lanes(x, p);
  I bits;
  reinterpret(bits, x);
  const I sign = bits & static_cast<std::int32_t>(0x80000000);
  bits ^= sign;
  V magnitude;
  reinterpret(magnitude, bits);
  const V limit = V{} + 15.0F;                        // tanh is 1 in float32 from 9.02 on
  magnitude = limit < magnitude ? limit : magnitude;  // propagates NaN

  // exp(-2|x|) = 2^k 2^f with an integer k and |f| <= 1/2. Adding 1.5 * 2^23 rounds to the nearest
  // integer; with 128 more, the low bits are k + 128, the exponent of 2^(k + 1).
  constexpr float kRound = 12582912.0F + 128;
  const V t = magnitude * -2.88539008177793F;  // -2 / ln 2
  const V shifted = t + kRound;
  const V f = t - (shifted - kRound);
  V e = f * 1.54035304e-4F + 1.33335581e-3F;  // Taylor: (ln 2)^n / n!
  e = e * f + 9.61812911e-3F;
  e = e * f + 5.55041087e-2F;
  e = e * f + 2.40226507e-1F;
  e = e * f + 6.93147181e-1F;
  e = e * f + 1.0F;
  reinterpret(bits, shifted);
  bits <<= 23;
  V scale;
  reinterpret(scale, bits);
  // Multiplies instead of adding to the exponent, which would turn some NaNs into numbers.
  const V twice = e * scale;

  const V y = (2.0F - twice) / (2.0F + twice);
  reinterpret(bits, y);
  bits |= sign;
  std::memcpy(p, &bits, sizeof bits);
}

template <int kWidth>
SHOAL_INLINE void tanh_all(float* p, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) tanh_at<kWidth>(p + i);
  if (i == n) return;
  float rest[kWidth] = {};
  std::copy(p + i, p + n, rest);
  tanh_at<kWidth>(rest);
  std::copy_n(rest, n - i, p + i);
}

// kRows rows times kVecs vectors of outputs. Every sum runs over the inputs in order, for any
// width, kRows and kVecs.
template <int kWidth, int kRows, int kVecs>
SHOAL_INLINE void dense_block(const float* x, std::int64_t x_stride, const float* w,
                              const float* bias, std::int64_t in, std::int64_t padded, float* y) {
  using V = typename Lanes<kWidth>::Float;
  V sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) load_lanes(sum[r][v], bias + v * kWidth);
  for (std::int64_t i = 0; i < in; ++i) {
    for (int v = 0; v < kVecs; ++v) {
      V weight;
      load_lanes(weight, w + i * padded + v * kWidth);
      for (int r = 0; r < kRows; ++r) sum[r][v] += weight * x[r * x_stride + i];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) store_lanes(y + r * padded + v * kWidth, sum[r][v]);
}

template <int kWidth, int kRows>
SHOAL_INLINE void dense_rows(const float* x, std::int64_t x_stride, const float* w,
                             const float* bias, std::int64_t in, std::int64_t padded, float* y) {
  std::int64_t o = 0;
  for (; o + 4 * kWidth <= padded; o += 4 * kWidth)
    dense_block<kWidth, kRows, 4>(x, x_stride, w + o, bias + o, in, padded, y + o);
  for (; o + kWidth <= padded; o += kWidth)
    dense_block<kWidth, kRows, 1>(x, x_stride, w + o, bias + o, in, padded, y + o);
  if (o < padded) dense_block<kLanes, kRows, 1>(x, x_stride, w + o, bias + o, in, padded, y + o);
}

template <int kWidth>
SHOAL_INLINE void dense_layer(const float* x, std::int64_t x_stride, std::int64_t rows,
                              const float* w, const float* bias, std::int64_t in,
                              std::int64_t padded, bool tanh, float* y) {
  std::int64_t r = 0;
  if (padded < 4 * kWidth) {  // a narrow layer has few sums per row: take more rows at once
    for (; r + 8 <= rows; r += 8)
      dense_rows<kWidth, 8>(x + r * x_stride, x_stride, w, bias, in, padded, y + r * padded);
  }
  for (; r + 3 <= rows; r += 3)
    dense_rows<kWidth, 3>(x + r * x_stride, x_stride, w, bias, in, padded, y + r * padded);
  for (; r < rows; ++r)
    dense_rows<kWidth, 1>(x + r * x_stride, x_stride, w, bias, in, padded, y + r * padded);
  if (tanh) tanh_all<kWidth>(y, rows * padded);
}

// NOLINTBEGIN(bugprone-macro-parentheses): names and attributes
#define SHOAL_MLP_KERNELS(NAME, TARGET, WIDTH)                                       \
  TARGET void layer_##NAME(const float* x, std::int64_t x_stride, std::int64_t rows, \
                           const float* w, const float* bias, std::int64_t in,       \
                           std::int64_t padded, bool tanh, float* y) {               \
    dense_layer<WIDTH>(x, x_stride, rows, w, bias, in, padded, tanh, y);             \
  }                                                                                  \
  TARGET void tanh_##NAME(float* p, std::int64_t n) { tanh_all<WIDTH>(p, n); }

SHOAL_MLP_KERNELS(avx512, SHOAL_AVX512, 16)
SHOAL_MLP_KERNELS(avx2, SHOAL_TARGET("avx2,fma"), kLanes)
SHOAL_MLP_KERNELS(portable, , kLanes)
// NOLINTEND(bugprone-macro-parentheses)
#undef SHOAL_MLP_KERNELS

struct MlpKernels {
  const char* instructions;
  void (*layer)(const float*, std::int64_t, std::int64_t, const float*, const float*, std::int64_t,
                std::int64_t, bool, float*);
  void (*tanh)(float*, std::int64_t);
};

const MlpKernels kKernels = has_avx512() ? MlpKernels{"AVX-512", layer_avx512, tanh_avx512}
                            : has_avx2() ? MlpKernels{"AVX2", layer_avx2, tanh_avx2}
                                         : MlpKernels{"portable", layer_portable, tanh_portable};

}  // namespace

void tanh_in_place(float* values, std::int64_t n) { kKernels.tanh(values, n); }

const char* MlpKernel::instructions() { return kKernels.instructions; }

void MlpKernel::add_layer(const float* weight, const float* bias, std::int64_t in, std::int64_t out,
                          bool tanh) {
  Layer layer{in, out, divide_up(out, kLanes) * kLanes, tanh, {}, {}};
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
    kKernels.layer(from, stride, rows, layer.weight.data(), layer.bias.data(), layer.in,
                   layer.padded, layer.tanh, to.data());
    from = to.data();
    stride = layer.padded;
  }
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * stride, out(), y + r * out());
}

}  // namespace shoal
