#include "src/models/panel_kernels.h"

#include <algorithm>
#include <array>

#include "src/models/panel_tile.h"
#include "src/models/vector_math.h"

namespace shoal {

namespace {

// Rows of the largest tile: the sums that fit into the registers, beside the factors.
constexpr int kRows512 = 12, kRows2 = 6;

// kRows rows times kVecs vectors of the product, from column `column` on.
template <int kWidth, int kRows, int kVecs>
SHOAL_INLINE void product_tile(const PanelProduct& p, std::int64_t m, std::int64_t column) {
  using V = typename Lanes<kWidth>::Float;
  V sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      sum[r][v] = V{} + (p.bias ? p.bias[m + r] : 0.0F);
      if (p.add) load_lanes(sum[r][v], p.c + (m + r) * p.c_row + column + v * kWidth);
    }
  }
  const float* b = p.b + column;
  for (std::int64_t block = 0; block < p.blocks; ++block) {
    const float* a = p.a + m * p.a_row + block * p.a_block;
    for (std::int64_t k = 0; k < p.steps; ++k, b += kPanel, a += p.a_step) {
      V x[kVecs];
      for (int v = 0; v < kVecs; ++v) load_lanes(x[v], b + v * kWidth);
      for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < kVecs; ++v) sum[r][v] += x[v] * a[r * p.a_row];
    }
  }
  store_tile<kWidth>(p, m, column, sum);
}

template <int kWidth, int kMostRows, int kVecs>
SHOAL_INLINE void product_columns(const PanelProduct& p, std::int64_t column) {
  std::int64_t m = 0;
  for (; m + kMostRows <= p.rows; m += kMostRows)
    product_tile<kWidth, kMostRows, kVecs>(p, m, column);
  for (; m + 4 <= p.rows; m += 4) product_tile<kWidth, 4, kVecs>(p, m, column);
  for (; m + 2 <= p.rows; m += 2) product_tile<kWidth, 2, kVecs>(p, m, column);
  for (; m < p.rows; ++m) product_tile<kWidth, 1, kVecs>(p, m, column);
}

template <int kWidth, int kMostRows>
SHOAL_INLINE void product(const PanelProduct& of_all) {
  for (std::int64_t i = 0; i < of_all.panels; ++i) {
    const auto p = panel_of(of_all, i);
    std::int64_t column = 0;
    for (; column + kWidth < p.columns; column += 2 * kWidth)
      product_columns<kWidth, kMostRows, 2>(p, column);
    if (column < p.columns) product_columns<kWidth, kMostRows, 1>(p, column);
  }
}

template <int kWidth>
SHOAL_INLINE float sum_of(const typename Lanes<kWidth>::Float& v) {
  float lane[kWidth];
  store_lanes(lane, v);
  for (int half = kWidth / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

template <int kWidth, int kRows>
SHOAL_INLINE void dot_rows(const PanelDots& p, std::int64_t i) {
  using V = typename Lanes<kWidth>::Float;
  V sum[kRows] = {};
  for (std::int64_t panel = 0; panel < p.panels; ++panel) {
    const float* g = p.g + panel * p.g_panel;
    const float* h = p.h ? p.h + panel * p.h_panel + i * kPanel : nullptr;
    for (std::int64_t n = 0; n < kPanel; n += kWidth) {
      V x;
      load_lanes(x, g + n);
      for (int r = 0; r < kRows; ++r) {
        V y = V{} + 1.0F;
        if (h) load_lanes(y, h + r * kPanel + n);
        sum[r] += x * y;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) p.to[i + r] = sum_of<kWidth>(sum[r]);
}

template <int kWidth>
SHOAL_INLINE void dots(const PanelDots& p) {
  std::int64_t i = 0;
  for (; i + 8 <= p.rows; i += 8) dot_rows<kWidth, 8>(p, i);
  for (; i < p.rows; ++i) dot_rows<kWidth, 1>(p, i);
}

SHOAL_INLINE void widen(const std::uint8_t* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
}

// Transposes a 4 x 4 square: swaps the off-diagonal blocks, then those within the blocks. (Larger
// squares were slower: their shuffles load indices from memory.)
SHOAL_INLINE void transpose_square(const float* from, std::int64_t from_row, float* to,
                                   std::int64_t to_row) {
  using V = Lanes<4>::Float;
  V x[4];
  for (int i = 0; i < 4; ++i) load_lanes(x[i], from + i * from_row);
  const V a = __builtin_shufflevector(x[0], x[2], 0, 1, 4, 5);
  const V b = __builtin_shufflevector(x[0], x[2], 2, 3, 6, 7);
  const V c = __builtin_shufflevector(x[1], x[3], 0, 1, 4, 5);
  const V d = __builtin_shufflevector(x[1], x[3], 2, 3, 6, 7);
  x[0] = __builtin_shufflevector(a, c, 0, 4, 2, 6);
  x[1] = __builtin_shufflevector(a, c, 1, 5, 3, 7);
  x[2] = __builtin_shufflevector(b, d, 0, 4, 2, 6);
  x[3] = __builtin_shufflevector(b, d, 1, 5, 3, 7);
  for (int i = 0; i < 4; ++i) store_lanes(to + i * to_row, x[i]);
}

SHOAL_INLINE void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to) {
  constexpr std::int64_t kStrip = 16;  // rows that fill whole cache lines of the output
  const auto squares = columns / 4 * 4;
  for (std::int64_t strip = 0; strip < rows; strip += kStrip) {
    const auto end = std::min(strip + kStrip, rows);
    const auto square_end = strip + (end - strip) / 4 * 4;
    for (std::int64_t column = 0; column < squares; column += 4)
      for (auto row = strip; row < square_end; row += 4)
        transpose_square(from + row * columns + column, columns, to + column * rows + row, rows);
    for (auto row = strip; row < end; ++row)
      for (auto column = row < square_end ? squares : 0; column < columns; ++column)
        to[column * rows + row] = from[row * columns + column];
  }
}

// sqrt(x) in place, for x >= 0, by Newton's method for 1 / sqrt(x), because the compiler does not
// vectorize std::sqrt. No intermediate result is much smaller than x.
template <int kWidth>
SHOAL_INLINE void root_lanes(typename Lanes<kWidth>::Float& x) {
  using V = typename Lanes<kWidth>::Float;
  using I = typename Lanes<kWidth>::Int;
  I bits;
  reinterpret(bits, x);
  bits = 0x5F375A86 - (bits >> 1);  // halves the exponent, and with it the logarithm
  V inverse;
  reinterpret(inverse, bits);
  for (int i = 0; i < 3; ++i) inverse *= 1.5F - x * inverse * inverse * 0.5F;
  const V root = x * inverse;
  x = root + root * (0.5F - root * inverse * 0.5F);
}

// The whole Adam step for kWidth numbers.
template <int kWidth>
SHOAL_INLINE void adam_lanes(const AdamStep& s, float* parameter, float* mean, float* square,
                             const float* gradient, float* target) {
  using V = typename Lanes<kWidth>::Float;
  constexpr auto kNew = static_cast<float>(1 - kAdamBeta1);
  constexpr auto kNewSquare = static_cast<float>(1 - kAdamBeta2);
  constexpr auto kOldSquare = static_cast<float>(kAdamBeta2);
  V x, m, v, g;
  load_lanes(x, parameter);
  load_lanes(m, mean);
  load_lanes(v, square);
  load_lanes(g, gradient);
  m += (g - m) * kNew;
  v = v * kOldSquare + g * g * kNewSquare;
  V root = v;
  root_lanes<kWidth>(root);
  x -= m * s.rate / (root * s.root + s.epsilon);
  store_lanes(parameter, x);
  store_lanes(mean, m);
  store_lanes(square, v);
  if (!target) return;
  V t;
  load_lanes(t, target);
  t += (x - t) * s.tau;
  store_lanes(target, t);
}

template <int kWidth>
SHOAL_INLINE void adam(const AdamStep& s) {
  // Where gradients are zero, as behind a ReLU that is always off, moments would shrink until they
  // are denormal, and rounding would keep them so. This way they become zero, or (means, without
  // fused multiply-add) stay at the smallest number of which a tenth is not denormal.
  const FlushDenormals flush;
  std::int64_t i = 0;
  for (; i + kWidth <= s.n; i += kWidth)
    adam_lanes<kWidth>(s, s.parameter + i, s.mean + i, s.square + i, s.gradient + i,
                       s.target ? s.target + i : nullptr);
  // The remaining numbers, padded to all lanes.
  float rest[5][kWidth] = {};
  float* const from[5] = {s.parameter, s.mean, s.square, const_cast<float*>(s.gradient), s.target};
  for (int k = 0; k < 5; ++k)
    if (from[k]) std::copy(from[k] + i, from[k] + s.n, rest[k]);
  adam_lanes<kWidth>(s, rest[0], rest[1], rest[2], rest[3], rest[4]);
  for (int k = 0; k < 5; ++k)
    if (from[k] && k != 3) std::copy_n(rest[k], s.n - i, from[k] + i);
}

template <int kWidth>
SHOAL_INLINE void cut_log_std(typename Lanes<kWidth>::Float& x) {
  using V = typename Lanes<kWidth>::Float;
  x = x < kLeastLogStd ? V{} + kLeastLogStd : x;
  x = x > kMostLogStd ? V{} + kMostLogStd : x;
}

template <int kWidth>
SHOAL_INLINE void squash(const PanelSquash& p) {
  using V = typename Lanes<kWidth>::Float;
  constexpr float kHalfLogTwoPi = 0.918938533F;
  for (std::int64_t n = 0; n < kPanel; n += kWidth) {
    V log_prob = {};
    for (std::int64_t i = 0; i < p.dims; ++i) {
      V mean, log_std, z, action, log_slope;
      load_lanes(mean, p.out + i * kPanel + n);
      load_lanes(log_std, p.out + (p.dims + i) * kPanel + n);
      load_lanes(z, p.noise + i * kPanel + n);
      cut_log_std<kWidth>(log_std);
      V deviation = log_std;
      exp_lanes<kWidth>(deviation);
      squash_lanes<kWidth>(mean + deviation * z, action, log_slope);
      store_lanes(p.action + i * kPanel + n, action);
      log_prob += z * z * -0.5F - log_std - kHalfLogTwoPi - log_slope;
    }
    store_lanes(p.log_prob + n, log_prob);
  }
}

// For fixed noise z, u = mean + deviation z and a = tanh u: d log_prob / du is
// -d ln(1 - a^2) / du = 2 a, and log_prob also depends directly on the log deviation.
template <int kWidth>
SHOAL_INLINE void squash_gradient(const PanelSquashGradient& p) {
  using V = typename Lanes<kWidth>::Float;
  const auto& f = p.forward;
  for (std::int64_t n = 0; n < kPanel; n += kWidth) {
    V weight;
    load_lanes(weight, p.scale + n);
    weight *= p.alpha;
    for (std::int64_t i = 0; i < f.dims; ++i) {
      V log_std, z, a, of_action;
      load_lanes(log_std, f.out + (f.dims + i) * kPanel + n);
      load_lanes(z, f.noise + i * kPanel + n);
      load_lanes(a, f.action + i * kPanel + n);
      load_lanes(of_action, p.of_action + i * kPanel + n);
      const V of_drawn = of_action * (1.0F - a * a) + weight * a * 2.0F;
      V deviation = log_std;
      cut_log_std<kWidth>(deviation);
      exp_lanes<kWidth>(deviation);
      V of_log_std = of_drawn * deviation * z - weight;
      of_log_std = log_std < kLeastLogStd ? V{} : of_log_std;
      of_log_std = log_std > kMostLogStd ? V{} : of_log_std;
      store_lanes(p.to + i * kPanel + n, of_drawn);
      store_lanes(p.to + (f.dims + i) * kPanel + n, of_log_std);
    }
  }
}

template <int kWidth>
SHOAL_INLINE void cut(typename Lanes<kWidth>::Float& x, float limit) {
  using V = typename Lanes<kWidth>::Float;
  x = x < -limit ? V{} - limit : x;
  x = x > limit ? V{} + limit : x;
}

template <int kWidth>
SHOAL_INLINE void tanh_panel(const PanelTanh& p) {
  using V = typename Lanes<kWidth>::Float;
  for (std::int64_t n = 0; n < p.dims * kPanel; n += kWidth) {
    V x, action, unused;
    load_lanes(x, p.out + n);
    squash_lanes<kWidth>(x, action, unused);
    if (p.noise) {
      V z;
      load_lanes(z, p.noise + n);
      z *= p.deviation;
      cut<kWidth>(z, p.clip);
      action += z;
      cut<kWidth>(action, 1);
    }
    store_lanes(p.action + n, action);
  }
}

SHOAL_INLINE void tanh_gradient(const float* of_action, const float* action, std::int64_t n,
                                float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = of_action[i] * (1 - action[i] * action[i]);
}

// philox() of kWidth counters at once.
template <int kWidth>
SHOAL_INLINE void philox_lanes(std::uint64_t key, typename Lanes<kWidth>::Word (&x)[4]) {
  using Word = typename Lanes<kWidth>::Word;
  using Wide = typename Lanes<kWidth>::Wide;
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Wide a = __builtin_convertvector(x[0], Wide) * 0xD2511F53U;
    const Wide b = __builtin_convertvector(x[2], Wide) * 0xCD9E8D57U;
    x[0] = __builtin_convertvector(b >> 32, Word) ^ x[1] ^ key0;
    x[2] = __builtin_convertvector(a >> 32, Word) ^ x[3] ^ key1;
    x[1] = __builtin_convertvector(b, Word);
    x[3] = __builtin_convertvector(a, Word);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

// Box and Muller, "A note on the generation of random normal deviates", 1958.
template <int kWidth>
SHOAL_INLINE void normal_pair(const typename Lanes<kWidth>::Word& a,
                              const typename Lanes<kWidth>::Word& b, float* first, float* second) {
  using V = typename Lanes<kWidth>::Float;
  using I = typename Lanes<kWidth>::Int;
  V u = 1.0F - __builtin_convertvector(__builtin_convertvector(a >> 8, I), V) * 0x1p-24F;
  const V angle = __builtin_convertvector(__builtin_convertvector(b >> 8, I), V) * 0x1p-24F;
  log_lanes<kWidth>(u);
  V radius = u * -2.0F;
  radius = radius > 0.0F ? radius : V{};
  root_lanes<kWidth>(radius);
  V cosine, sine;
  circle_lanes<kWidth>(angle, cosine, sine);
  store_lanes(first, radius * cosine);
  store_lanes(second, radius * sine);
}

// Number i of a block of 4 * kPanel is made from word i / kPanel of the counter i % kPanel.
template <int kWidth>
SHOAL_INLINE void normal(std::uint64_t key, std::uint64_t number, std::int64_t n, float* to) {
  using Word = typename Lanes<kWidth>::Word;
  for (std::int64_t done = 0; done < n; done += 4 * kPanel) {
    for (std::int64_t l = 0; l < kPanel; l += kWidth) {
      std::uint32_t counter[kWidth];
      for (int i = 0; i < kWidth; ++i) counter[i] = static_cast<std::uint32_t>(done / 4 + l + i);
      Word x[4] = {};
      reinterpret(x[0], counter);
      x[2] += static_cast<std::uint32_t>(number);
      // No other numbers of this key have this bit in their counters.
      x[3] += static_cast<std::uint32_t>(number >> 32) | 0x80000000U;
      philox_lanes<kWidth>(key, x);
      float* at = to + done + l;
      normal_pair<kWidth>(x[0], x[1], at, at + kPanel);
      normal_pair<kWidth>(x[2], x[3], at + 2 * kPanel, at + 3 * kPanel);
    }
  }
}

template <int kWidth>
SHOAL_INLINE std::int64_t multiply_add(std::int64_t times) {
  using V = typename Lanes<kWidth>::Float;
  constexpr int kSums = 12;  // enough independent sums to hide latency
  V sum[kSums];
  for (int i = 0; i < kSums; ++i) sum[i] = V{} + static_cast<float>(i);
  const V x = V{} + 0.5F, y = V{} + 0.25F;
  for (std::int64_t t = 0; t < times; ++t)
    for (int i = 0; i < kSums; ++i) sum[i] = sum[i] * x + y;
  float total = 0;
  for (int i = 0; i < kSums; ++i) total += sum_of<kWidth>(sum[i]);
  return total > 0 ? times * kSums * kWidth * 2 : 0;
}

// Inlined templates are compiled for the instruction set of the function.
// NOLINTBEGIN(bugprone-macro-parentheses): names and attributes take none
#define SHOAL_PANEL_KERNELS(NAME, TARGET, WIDTH, ROWS)                                            \
  TARGET void product_##NAME(const PanelProduct& p) { product<WIDTH, ROWS>(p); }                  \
  TARGET void dots_##NAME(const PanelDots& p) { dots<WIDTH>(p); }                                 \
  TARGET void widen_##NAME(const std::uint8_t* from, std::int64_t n, float* to) {                 \
    widen(from, n, to);                                                                           \
  }                                                                                               \
  TARGET void transpose_##NAME(const float* from, std::int64_t rows, std::int64_t columns,        \
                               float* to) {                                                       \
    transpose(from, rows, columns, to);                                                           \
  }                                                                                               \
  TARGET void adam_##NAME(const AdamStep& s) { adam<WIDTH>(s); }                                  \
  TARGET void squash_##NAME(const PanelSquash& p) { squash<WIDTH>(p); }                           \
  TARGET void squash_gradient_##NAME(const PanelSquashGradient& p) { squash_gradient<WIDTH>(p); } \
  TARGET void tanh_##NAME(const PanelTanh& p) { tanh_panel<WIDTH>(p); }                           \
  TARGET void tanh_gradient_##NAME(const float* of_action, const float* action, std::int64_t n,   \
                                   float* to) {                                                   \
    tanh_gradient(of_action, action, n, to);                                                      \
  }                                                                                               \
  TARGET void normal_##NAME(std::uint64_t key, std::uint64_t number, std::int64_t n, float* to) { \
    normal<WIDTH>(key, number, n, to);                                                            \
  }                                                                                               \
  TARGET std::int64_t multiply_add_##NAME(std::int64_t times) { return multiply_add<WIDTH>(times); }

#define SHOAL_PANEL_TABLE(NAME, TEXT)                                                              \
  {                                                                                                \
    TEXT, product_##NAME, dots_##NAME, widen_##NAME, transpose_##NAME, adam_##NAME, squash_##NAME, \
        squash_gradient_##NAME, tanh_##NAME, tanh_gradient_##NAME, normal_##NAME,                  \
        multiply_add_##NAME                                                                        \
  }

SHOAL_PANEL_KERNELS(avx512, SHOAL_AVX512, 16, kRows512)
SHOAL_PANEL_KERNELS(avx2, SHOAL_TARGET("avx2,fma"), 8, kRows2)
SHOAL_PANEL_KERNELS(plain, , 4, kRows2)
// NOLINTEND(bugprone-macro-parentheses)

const PanelKernels kAvx512 = SHOAL_PANEL_TABLE(avx512, "AVX-512"),
                   kAvx2 = SHOAL_PANEL_TABLE(avx2, "AVX2"),
                   kPlain = SHOAL_PANEL_TABLE(plain, "portable");

}  // namespace

const PanelKernels* const* all_panel_kernels() {
  static const std::array<const PanelKernels*, 4> kAll = [] {
    std::array<const PanelKernels*, 4> found{};
    std::size_t n = 0;
    if (has_avx512()) found[n++] = &kAvx512;
    if (has_avx2()) found[n++] = &kAvx2;
    found[n] = &kPlain;
    return found;
  }();
  return kAll.data();
}

const PanelKernels& panel_kernels() { return *all_panel_kernels()[0]; }

}  // namespace shoal
