#include "src/models/winograd_kernels.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "src/models/panel_kernels.h"
#include "src/models/vector_math.h"
#include "src/models/winograd_matrices.h"

namespace shoal {

namespace {

template <std::size_t kOut, std::size_t kTaps>
struct WinogradSize : WinogradMatrices<kOut, kTaps> {
  static constexpr auto kMatrices = WinogradMatrices<kOut, kTaps>::make();
  struct Input {
    static constexpr auto kAt = kMatrices.input;
  };
  struct Output {
    static constexpr auto kAt = kMatrices.output;
  };
  static constexpr std::array<float, WinogradSize::kSide* kTaps> kWeight = [] {
    std::array<float, WinogradSize::kSide * kTaps> flat{};
    for (std::size_t t = 0; t < WinogradSize::kSide; ++t)
      for (std::size_t k = 0; k < kTaps; ++k)
        flat[t * kTaps + k] = static_cast<float>(kMatrices.weight[t][k]);
    return flat;
  }();
};
template <class Matrix>
struct Transposed {
  static constexpr auto kAt = transposed(Matrix::kAt);
};

template <class Matrix, std::size_t kRow>
constexpr std::size_t kFirst = [] {
  std::size_t k = 0;
  while (Matrix::kAt[kRow][k] == 0) ++k;
  return k;
}();

template <class Matrix, std::size_t kRow, std::size_t k, class V>
SHOAL_INLINE void add_term(V& y, const V& x) {
  constexpr auto kFactor = static_cast<float>(Matrix::kAt[kRow][k]);
  if constexpr (k == kFirst<Matrix, kRow>) {
    if constexpr (kFactor == 1) {
      y = x;
    } else if constexpr (kFactor == -1) {
      y = -x;
    } else {
      y = x * kFactor;
    }
  } else if constexpr (kFactor == 1) {
    y += x;
  } else if constexpr (kFactor == -1) {
    y -= x;
  } else if constexpr (kFactor != 0) {
    y += x * kFactor;
  }
}

template <class Matrix, std::size_t kRow, class V, std::size_t... kColumns>
SHOAL_INLINE void multiply_row(const V* x, V* y, std::index_sequence<kColumns...>) {
  (add_term<Matrix, kRow, kColumns>(y[kRow], x[kColumns]), ...);
}

template <class Matrix, class V, std::size_t... kRows>
SHOAL_INLINE void multiply_rows(const V* x, V* y, std::index_sequence<kRows...>) {
  constexpr auto kColumns = Matrix::kAt[0].size();
  (multiply_row<Matrix, kRows>(x, y, std::make_index_sequence<kColumns>()), ...);
}

// y = matrix * x. Only terms that are not zero are added.
template <class Matrix, class V>
SHOAL_INLINE void multiply(const V* x, V* y) {
  multiply_rows<Matrix>(x, y, std::make_index_sequence<Matrix::kAt.size()>());
}

// matrix * x * transposed(matrix), for x(row, column), passed to y(row, column, result).
template <class Matrix, class V, class X, class Y>
SHOAL_INLINE void transform(const X& x, const Y& y) {
  constexpr auto kTo = Matrix::kAt.size(), kFrom = Matrix::kAt[0].size();
  V half[kTo][kFrom];
  for (std::size_t j = 0; j < kFrom; ++j) {
    V from[kFrom], to[kTo];
    for (std::size_t i = 0; i < kFrom; ++i) x(i, j, from[i]);
    multiply<Matrix>(from, to);
    for (std::size_t i = 0; i < kTo; ++i) half[i][j] = to[i];
  }
  for (std::size_t i = 0; i < kTo; ++i) {
    V to[kTo];
    multiply<Matrix>(half[i], to);
    for (std::size_t j = 0; j < kTo; ++j) y(i, j, to[j]);
  }
}

#define SHOAL_LAMBDA __attribute__((always_inline))

template <int kWidth, class T>
SHOAL_INLINE void read_input(const WinogradInput& p) {
  using V = typename Lanes<kWidth>::Float;
  float* transformed = p.transformed;
  for (std::int64_t cell_row = 0; cell_row < p.cell_rows; ++cell_row) {
    for (std::int64_t c = 0; c < p.cell_row_size; c += kWidth, transformed += kWidth) {
      const float* image = p.image + cell_row * p.cell_row_stride + c;
      transform<typename T::Input, V>(
          [&](std::size_t i, std::size_t j, V& x) SHOAL_LAMBDA {
            const auto row = static_cast<std::int64_t>(i), column = static_cast<std::int64_t>(j);
            x = V{};
            if (row < p.rows && column < p.columns)
              load_lanes(x, image + row * p.row_stride + column * p.column_stride);
          },
          [&](std::size_t i, std::size_t j, const V& y) SHOAL_LAMBDA {
            store_lanes(transformed + static_cast<std::int64_t>(i * T::kSide + j) * p.point_stride,
                        y);
          });
    }
  }
}

template <int kWidth, class T>
SHOAL_INLINE void write_input_gradient(const WinogradInput& p) {
  using V = typename Lanes<kWidth>::Float;
  const float* transformed = p.transformed;
  for (std::int64_t cell_row = 0; cell_row < p.cell_rows; ++cell_row) {
    for (std::int64_t c = 0; c < p.cell_row_size; c += kWidth, transformed += kWidth) {
      float* image = p.image + cell_row * p.cell_row_stride + c;
      transform<Transposed<typename T::Input>, V>(
          [&](std::size_t i, std::size_t j, V& x) SHOAL_LAMBDA {
            load_lanes(x,
                       transformed + static_cast<std::int64_t>(i * T::kSide + j) * p.point_stride);
          },
          [&](std::size_t i, std::size_t j, const V& y) SHOAL_LAMBDA {
            const auto row = static_cast<std::int64_t>(i), column = static_cast<std::int64_t>(j);
            if (row >= p.rows || column >= p.columns) return;
            float* const to = image + row * p.row_stride + column * p.column_stride;
            V sum;
            load_lanes(sum, to);
            store_lanes(to, sum + y);
          });
    }
  }
}

template <int kWidth, class T>
SHOAL_INLINE void write_output(const WinogradOutput& p) {
  using V = typename Lanes<kWidth>::Float;
  for (std::int64_t c = 0; c < p.channels; c += kWidth) {
    const float* transformed = p.transformed + c / kPanel * p.panel_stride + c % kPanel;
    V bias;
    load_lanes(bias, p.bias + c);
    transform<typename T::Output, V>(
        [&](std::size_t i, std::size_t j, V& x) SHOAL_LAMBDA {
          load_lanes(x, transformed + static_cast<std::int64_t>(i * T::kSide + j) * p.point_stride);
        },
        [&](std::size_t i, std::size_t j, const V& sum) SHOAL_LAMBDA {
          const auto row = static_cast<std::int64_t>(i), column = static_cast<std::int64_t>(j);
          if (row >= p.rows || column >= p.columns) return;
          const V y = sum + bias;
          store_lanes(p.image + row * p.row_stride + column * p.column_stride + c,
                      y < 0.0F ? V{} : y);  // propagates NaN
        });
  }
}

template <int kWidth, class T>
SHOAL_INLINE void read_output_gradient(const WinogradOutput& p) {
  using V = typename Lanes<kWidth>::Float;
  for (std::int64_t c = 0; c < p.channels; c += kWidth) {
    float* const transformed = p.transformed + c / kPanel * p.panel_stride + c % kPanel;
    V bias;
    load_lanes(bias, p.bias_gradient + c);
    transform<Transposed<typename T::Output>, V>(
        [&](std::size_t i, std::size_t j, V& x) SHOAL_LAMBDA {
          const auto row = static_cast<std::int64_t>(i), column = static_cast<std::int64_t>(j);
          x = V{};
          if (row >= p.rows || column >= p.columns) return;
          const auto at = row * p.row_stride + column * p.column_stride + c;
          V y;
          load_lanes(y, p.image + at);
          load_lanes(x, p.gradient + at);
          x = y <= 0.0F ? V{} : x;
          bias += x;
        },
        [&](std::size_t i, std::size_t j, const V& y) SHOAL_LAMBDA {
          store_lanes(transformed + static_cast<std::int64_t>(i * T::kSide + j) * p.point_stride,
                      y);
        });
    store_lanes(p.bias_gradient + c, bias);
  }
}

// Inlined templates are compiled for the instruction set of the function.
// NOLINTBEGIN(bugprone-macro-parentheses): names and attributes take none
#define SHOAL_WINOGRAD_KERNELS(NAME, TARGET, WIDTH)               \
  struct Winograd_##NAME {                                        \
    template <class T>                                            \
    TARGET static void input(const WinogradInput& p) {            \
      read_input<WIDTH, T>(p);                                    \
    }                                                             \
    template <class T>                                            \
    TARGET static void input_gradient(const WinogradInput& p) {   \
      write_input_gradient<WIDTH, T>(p);                          \
    }                                                             \
    template <class T>                                            \
    TARGET static void output(const WinogradOutput& p) {          \
      write_output<WIDTH, T>(p);                                  \
    }                                                             \
    template <class T>                                            \
    TARGET static void output_gradient(const WinogradOutput& p) { \
      read_output_gradient<WIDTH, T>(p);                          \
    }                                                             \
  };

SHOAL_WINOGRAD_KERNELS(avx512, SHOAL_AVX512, 16)
SHOAL_WINOGRAD_KERNELS(avx2, SHOAL_TARGET("avx2,fma"), 8)
SHOAL_WINOGRAD_KERNELS(plain, , 4)
#undef SHOAL_WINOGRAD_KERNELS
// NOLINTEND(bugprone-macro-parentheses)

template <class Kernels, class T>
constexpr WinogradKernels kOneSize{T::kOut,
                                   T::kTaps,
                                   T::kWeight.data(),
                                   Kernels::template input<T>,
                                   Kernels::template input_gradient<T>,
                                   Kernels::template output<T>,
                                   Kernels::template output_gradient<T>};
template <class Kernels>
constexpr WinogradKernels kAllSizes[] = {
    kOneSize<Kernels, WinogradSize<3, 2>>, kOneSize<Kernels, WinogradSize<4, 2>>,
    kOneSize<Kernels, WinogradSize<2, 3>>, kOneSize<Kernels, WinogradSize<4, 3>>};

#undef SHOAL_LAMBDA

}  // namespace

std::span<const std::span<const WinogradKernels>> all_winograd_kernels() {
  static const auto kAll = [] {
    std::vector<std::span<const WinogradKernels>> found;
    if (has_avx512()) found.push_back(kAllSizes<Winograd_avx512>);
    if (has_avx2()) found.push_back(kAllSizes<Winograd_avx2>);
    found.push_back(kAllSizes<Winograd_plain>);
    return found;
  }();
  return kAll;
}

std::span<const WinogradKernels> winograd_kernels() { return all_winograd_kernels().front(); }

}  // namespace shoal
