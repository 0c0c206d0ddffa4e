#pragma once

#include <cstdint>
#include <span>

namespace shoal {

// The transforms of Winograd convolutions: see winograd.h. A tile is side x side cells of the
// input, from which out x out cells of the output follow, where side = out + taps - 1. Transformed,
// it has a number for each channel at each of side * side points. All numbers are float32.

// A tile of the input.
struct WinogradInput {
  float* image;                             // the first cell of the tile
  std::int64_t row_stride, column_stride;   // from a cell to that below, to the right
  std::int64_t cell_rows, cell_row_stride;  // a cell has so many rows of pixels,
  std::int64_t cell_row_size;               // each of so many channels: a multiple of 16
  std::int64_t rows, columns;               // cells of the tile that exist; others are zeros
  float* transformed;                       // channel c at point t: [t * point_stride + c]
  std::int64_t point_stride;
};

// A tile of the output.
struct WinogradOutput {
  // Channel c at point t: [t * point_stride + c / kPanel * panel_stride + c % kPanel].
  float* transformed;
  std::int64_t point_stride, panel_stride;
  std::int64_t channels;                   // a multiple of kPanel
  float* image;                            // the first cell of the tile
  std::int64_t row_stride, column_stride;  // from a cell to that below, to the right
  std::int64_t rows, columns;              // cells of the tile that exist
  const float* gradient = nullptr;         // of the output, laid out as the image
  const float* bias = nullptr;             // [channels]
  float* bias_gradient = nullptr;          // [channels]; added to
};

// The kernels of F(out x out, taps x taps) for one instruction set.
struct WinogradKernels {
  std::int64_t out, taps;
  const float* weight;  // [side, taps]: transforms the weights
  void (*input)(const WinogradInput&);
  void (*input_gradient)(const WinogradInput&);    // adds to the image
  void (*output)(const WinogradOutput&);           // with bias and ReLU
  void (*output_gradient)(const WinogradOutput&);  // to transformed and bias_gradient
};

// The fastest for this CPU, one for each size of tile.
std::span<const WinogradKernels> winograd_kernels();
// Those of every instruction set of this CPU, fastest first.
std::span<const std::span<const WinogradKernels>> all_winograd_kernels();

}  // namespace shoal
