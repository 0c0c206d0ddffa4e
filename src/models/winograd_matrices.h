#pragma once

#include <array>
#include <cstddef>

namespace shoal {

template <std::size_t kRows, std::size_t kColumns>
using Matrix = std::array<std::array<double, kColumns>, kRows>;

// The matrices of F(kOut, kTaps), with which kOut outputs y[i] = sum over k of d[i + k] * g[k] take
// kSide multiplications instead of kOut * kTaps:
//   y = output * ((weight * g) . (input * d)), with element-wise products.
// Polynomials are multiplied at kSide points: 0, 1, -1, 2, -2 and infinity. Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", arXiv 1509.09308.
template <std::size_t kOut_, std::size_t kTaps_>
struct WinogradMatrices {
  static constexpr std::size_t kOut = kOut_, kTaps = kTaps_, kSide = kOut + kTaps - 1;

  Matrix<kSide, kSide> input{};
  Matrix<kSide, kTaps> weight{};
  Matrix<kOut, kSide> output{};

  static constexpr WinogradMatrices make() {
    constexpr std::array<double, 5> kPoints{0, 1, -1, 2, -2};
    constexpr std::size_t kInfinity = kSide - 1;
    static_assert(kInfinity <= kPoints.size());
    WinogradMatrices m;
    for (std::size_t t = 0; t < kSide; ++t) {
      // The polynomial that vanishes at all other points, and its value at this one.
      std::array<double, kSide + 1> polynomial{1};
      double value = 1;
      for (std::size_t other = 0; other < kInfinity; ++other) {
        if (other == t) continue;
        for (std::size_t k = kSide; k > 0; --k)
          polynomial[k] = polynomial[k - 1] - kPoints[other] * polynomial[k];
        polynomial[0] *= -kPoints[other];
        if (t != kInfinity) value *= kPoints[t] - kPoints[other];
      }
      for (std::size_t k = 0; k < kSide; ++k) m.input[t][k] = polynomial[k];
      if (t == kInfinity) {
        m.weight[t][kTaps - 1] = m.output[kOut - 1][t] = 1;
        break;
      }
      double power = 1;
      for (std::size_t k = 0; k < kSide; ++k, power *= kPoints[t]) {
        if (k < kTaps) m.weight[t][k] = power / value;
        if (k < kOut) m.output[k][t] = power;
      }
    }
    return m;
  }
};

template <std::size_t kRows, std::size_t kColumns>
constexpr Matrix<kColumns, kRows> transposed(const Matrix<kRows, kColumns>& matrix) {
  Matrix<kColumns, kRows> to{};
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t c = 0; c < kColumns; ++c) to[c][r] = matrix[r][c];
  return to;
}

}  // namespace shoal
