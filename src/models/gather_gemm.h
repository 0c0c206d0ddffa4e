#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace shoal {

// Memory layout of a matrix row: `segments` runs of `length` floats, `stride` apart.
struct RowLayout {
  std::int64_t segments = 1, length = 0, stride = 0;
  std::int64_t size() const { return segments * length; }
};

// y = act(X W + b) for a matrix X whose rows are read in place: the patch under a filter is a few
// runs of a channels-last image, so a convolution needs no copy of its input. A row's result does
// not depend on the other rows, bit for bit. Optimized for AVX2, AVX-512 and, in bfloat16, AMX;
// slow on other CPUs.
class GatherGemm {
 public:
  // weight: [out, ...] float32 with row.size() numbers for each output, in the order of a row of X;
  // bias: [out] float32. Both are copied. bf16: rounds the weights to bfloat16 and, on a CPU with
  // AMX, if row.length is a multiple of 32, the inputs, too.
  GatherGemm(const at::Tensor& weight, const at::Tensor& bias, RowLayout row, bool relu,
             bool bf16 = false);

  // Outputs are computed in blocks of 16; a row of y has blocks() * 16 numbers.
  static constexpr std::int64_t kBlock = 16;
  std::int64_t blocks() const { return blocks_; }
  std::int64_t row_of_y() const { return blocks_ * kBlock; }
  // Whether inputs are rounded to bfloat16, too.
  bool multiplies_bf16() const { return !bf16_weight_.empty(); }

  // The weights of two inputs of a block in bfloat16: a row of a tile of AMX.
  struct alignas(64) InputPair {
    std::uint16_t weights[kBlock][2] = {};
  };

  // The offset of a row in x, and that of its outputs in y, row_of_y() numbers.
  struct Place {
    std::int64_t x, y;
  };
  // Computes the outputs of blocks [from, to), so that several threads can share a layer.
  void run(const float* x, std::span<const Place> rows, float* y, std::int64_t from,
           std::int64_t to) const;
  void run(const float* x, std::span<const Place> rows, float* y) const {
    run(x, rows, y, 0, blocks_);
  }

  // Whether this CPU has the instructions that the kernel is optimized for.
  static bool is_fast();

 private:
  RowLayout row_;
  std::int64_t blocks_;
  bool relu_;
  std::vector<float> weight_, bias_;    // [blocks, row.size(), 16], [blocks, 16]
  std::vector<InputPair> bf16_weight_;  // [blocks, row.size() / 2], instead of weight_
};

}  // namespace shoal
