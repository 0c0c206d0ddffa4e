#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// Builds the input of a convolution in one pass: stacked or single uint8 images, gathered by index,
// as values 0..255 of `dtype` (float32, bfloat16 or uint8, all exact). [N, stack * C, H, W], the C
// planes of a frame adjacent, in channels-last memory order, which convolutions need. Blank frames
// are zeros.
at::Tensor images(const Observed& observation, at::ScalarType dtype);

// The same, one observation at a time, for the common case: four grey frames, on the CPU.
class FourFrames {
 public:
  static bool fits(const Observed& observation);
  explicit FourFrames(const Observed& observation);  // requires fits()
  std::int64_t size() const { return index_.size(0); }
  std::int64_t height() const { return data_.size(1); }
  std::int64_t width() const { return data_.size(2); }
  // Observation n, as values 0..255: out[height][width][4]. Any number of threads may call.
  void write(std::int64_t n, float* out) const { write_as(n, out); }
  void write(std::int64_t n, std::uint8_t* out) const { write_as(n, out); }

 private:
  template <class Number>
  void write_as(std::int64_t n, Number* out) const;

  at::Tensor data_, index_;
  std::vector<std::uint8_t> blank_;
};

}  // namespace shoal
