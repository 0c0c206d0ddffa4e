#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal {

// An MLP, with ReLU between its layers, whose parameters lie in one tensor [size()] float32: of
// each layer the weight [out, in], row by row, then the bias [out]. So an optimizer, an average or
// a copy is one pass over memory, and several such networks are rows of one tensor.
struct FlatMlp {
  std::vector<std::int64_t> widths;  // of the input, of each hidden layer, of the output

  std::int64_t in() const { return widths.front(); }
  std::int64_t out() const { return widths.back(); }
  std::size_t layers() const { return widths.size() - 1; }
  std::int64_t size() const { return offset(layers()); }
  // Where layer l begins, with its weight.
  std::int64_t offset(std::size_t l) const;
  std::int64_t bias_offset(std::size_t l) const { return offset(l) + widths[l] * widths[l + 1]; }

  // x: [N, in] -> [N, out], by tensor operations, on any device and with gradients. parameters:
  // [size()].
  at::Tensor forward(const at::Tensor& parameters, const at::Tensor& x) const;

  // Weights and biases uniform within 1 / sqrt(in) of 0, as torch::nn::Linear has them at first;
  // from a generator of its own, seeded with `seed`.
  void initialise(at::Tensor parameters, std::uint64_t seed) const;
};

}  // namespace shoal
