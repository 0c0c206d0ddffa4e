#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "src/models/gather_gemm.h"

namespace shoal {

// Convolutions with ReLU on successive uint8 images of an environment that change little from step
// to step: each layer computes only outputs whose inputs have changed. The result equals the full
// computation, bit for bit, because an output does not depend on which others are computed with it.
// On Pong and Breakout this takes two fifths of the time of the full computation, and no more than
// that where everything moves.
class IncrementalConvolutions {
 public:
  struct Layer {
    at::Tensor weight;  // [out, size, size, channels] float32, out a multiple of 16
    at::Tensor bias;    // [out] float32
    std::int64_t stride;
  };
  // Images are [height][width][channels], channels as in the first layer. The parameters are
  // copied. bf16: see GatherGemm.
  IncrementalConvolutions(const std::vector<Layer>& layers, std::int64_t height, std::int64_t width,
                          bool bf16 = false);

  // The last image of one environment, and its outputs of all layers except the last.
  struct Memory {
    std::vector<std::uint8_t> image;  // empty before the first image
    std::vector<std::vector<float>> outputs;
  };
  // Updates `features`, [height][width][out] of the last layer, to those of `image`; it must hold
  // the result of the last call with this memory. Several threads may call, each with its own
  // memories.
  void run(const std::uint8_t* image, Memory& memory, float* features) const;

  std::int64_t image_bytes() const { return height_ * width_ * channels_; }
  std::int64_t features() const { return convolutions_.back().outputs(); }

 private:
  struct Convolution {
    GatherGemm gemm;
    std::vector<GatherGemm::Place> places;  // of all outputs
    std::int64_t in_width;                  // of the grid of inputs, which are pixels or,
    std::int64_t size, stride;              // in the first layer, blocks of pixels
    std::int64_t out_height, out_width;
    std::int64_t outputs() const {
      return static_cast<std::int64_t>(places.size()) * gemm.row_of_y();
    }
  };

  void find_changes(const std::uint8_t* image, Memory& memory,
                    std::vector<std::uint8_t>& changed) const;
  void convolve_pixels(const std::uint8_t* image, std::span<const GatherGemm::Place> places,
                       float* y) const;

  std::int64_t height_, width_, channels_;
  std::int64_t patch_, block_;  // side in pixels of the first layer's filters, and their stride
  std::vector<Convolution> convolutions_;
};

}  // namespace shoal
