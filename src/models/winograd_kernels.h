#pragma once

#include <cstdint>
#include <span>

namespace shoal {

// The transforms of convolutions that are computed in tiles: see winograd.h. A tile of side x side
// cells of the input gives out x out cells of the output. Product t of a tile, of side * side, is
// that of the input and the weights at point t. All numbers are float32; `channels` is a multiple
// of 16.

// A tile of the input. A cell is `parts` runs of `length` channels.
struct WinogradInput {
  float* image;                      // the first cell of the tile
  std::int64_t row, column;          // offsets from a cell to that below, to the right
  std::int64_t parts, part, length;  // runs are `part` apart
  std::int64_t rows, columns;        // cells of the tile that exist; others are zeros
  float* factors;                    // channel c at point t is at [t * step + c]
  std::int64_t step;
};

// A tile of the output.
struct WinogradOutput {
  float* products;  // channel c at point t is at [t * step + c / kPanel * panel + c % kPanel]
  std::int64_t step, panel;
  std::int64_t channels;
  float* image;                     // the first cell of the tile
  std::int64_t row, column;         // offsets from a cell to that below, to the right
  std::int64_t rows, columns;       // cells of the tile that exist
  const float* gradient = nullptr;  // of the loss by the output, laid out as the image
  const float* bias = nullptr;      // [channels]
  float* bias_gradient = nullptr;   // [channels]; added to
};

struct WinogradTile {
  std::int64_t out, taps;
  const float* weight;  // [side, taps]: the transform of the weights
  void (*input)(const WinogradInput&);
  void (*input_gradient)(const WinogradInput&);    // adds to the image, from the factors
  void (*output)(const WinogradOutput&);           // with bias and ReLU
  void (*output_gradient)(const WinogradOutput&);  // to products and bias_gradient
};

// The sizes of tiles for the fastest instructions of this CPU.
std::span<const WinogradTile> winograd_tiles();
// For each set of instructions of this CPU.
std::span<const std::span<const WinogradTile>> all_winograd_tiles();

}  // namespace shoal
