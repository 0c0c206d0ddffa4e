#pragma once

#include <cstdint>
#include <vector>

namespace shoal {

// Where the row of a matrix lies in memory: `segments` runs of `length` numbers, `stride` apart.
struct RowLayout {
  std::int64_t segments = 1, length = 0, stride = 0;
  std::int64_t size() const { return segments * length; }
};

// y = act(X W + b) for a matrix X whose rows are read where they lie: the patch under a filter is a
// few runs of a channels-last image, so a convolution needs no copy of its input. A row's result
// does not depend on the other rows, bit for bit. Made for AVX2; elsewhere it works, slowly.
//
// Number is float, or std::int16_t: inputs and weights are then integers times a scale, which takes
// half the multiplications and half the memory. Each output's weights have a scale of their own,
// chosen so that sums of 32 bits cannot overflow. About as exact as bfloat16.
template <class Number>
class GatherGemm {
 public:
  // weight: [out, row.size()] row-major; a column's order is that of a row of X. With integers,
  // row.length is even, and inputs are at most max_input.
  GatherGemm(const float* weight, const float* bias, std::int64_t out, RowLayout row, bool relu,
             Number max_input);

  // Outputs are computed in blocks of 16; y has room for blocks() * 16 numbers a row.
  static constexpr std::int64_t kBlock = 16;
  std::int64_t blocks() const { return blocks_; }
  std::int64_t row_of_y() const { return blocks_ * kBlock; }

  // Row r of X starts at x + offsets[r]. A unit of it is worth scale[r * scale_step]; float has no
  // scale.
  struct Input {
    const Number* x;
    const float* scale = nullptr;
    std::int64_t scale_step = 0;
  };

  // y: [offsets.size(), row_of_y()]. Computes the outputs of blocks [from, to), so that several
  // threads may share a layer.
  void run(const Input& input, const std::vector<std::int64_t>& offsets, float* y,
           std::int64_t from, std::int64_t to) const;
  void run(const Input& input, const std::vector<std::int64_t>& offsets, float* y) const {
    run(input, offsets, y, 0, blocks_);
  }

 private:
  void pack(const float* weight, std::int64_t out, Number max_input);

  RowLayout row_;
  std::int64_t blocks_;
  bool relu_;
  std::vector<Number> weight_;       // [blocks, row.size(), 16]; integers [.., size / 2, 16, 2]
  std::vector<float> scale_, bias_;  // [blocks, 16]
};

// Rounds n outputs, none negative, to inputs of the next layer, integers 0..max, and returns what a
// unit of them is worth. 0 and the largest are exact.
float to_integers(const float* y, std::int64_t n, std::int16_t max, std::int16_t* x);

// Whether this CPU is one the kernels are made for.
bool gather_gemm_is_fast();

}  // namespace shoal
