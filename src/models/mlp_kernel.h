#pragma once

#include <cstdint>
#include <vector>

namespace shoal {

// tanh of n numbers, in place; absolute error below 2e-7. Also used by MlpKernel, so that learning
// and acting agree.
void tanh_in_place(float* values, std::int64_t n);

// y = act(x W + b) layer by layer, row by row and without torch, for small networks, where the
// overhead of tensor operations exceeds their arithmetic. A row's result does not depend on the
// other rows of its batch, bit for bit. Weights are stored [in, out] with `out` padded to whole
// vectors.
class MlpKernel {
 public:
  // Adds a layer; weight is [out, in] row-major, as in torch::nn::Linear.
  void add_layer(const float* weight, const float* bias, std::int64_t in, std::int64_t out,
                 bool tanh);
  void clear() { layers_.clear(), widest_ = 0; }

  // x: [rows, in] -> y: [rows, out], both dense. Several threads may call it, each for its own
  // rows.
  void run(const float* x, std::int64_t rows, float* y) const;

  bool empty() const { return layers_.empty(); }
  std::int64_t in() const { return layers_.front().in; }
  std::int64_t out() const { return layers_.back().out; }

  // The instruction set in use: "AVX-512", "AVX2" or "portable".
  static const char* instructions();

 private:
  struct Layer {
    std::int64_t in, out, padded;
    bool tanh;
    std::vector<float> weight, bias;  // [in, padded], [padded]
  };
  void run_chunk(const float* x, std::int64_t rows, float* y) const;

  std::vector<Layer> layers_;
  std::int64_t widest_ = 0;  // the padded outputs of the widest layer
};

}  // namespace shoal
