#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal {

// An MLP, with ReLU between its layers, whose parameters are one tensor [size()] float32: for each
// layer the row-major weight [out, in], then the bias [out]. An optimizer step, an average or a
// copy is thus one pass over memory, and several such networks are rows of one tensor.
struct FlatMlp {
  std::vector<std::int64_t> widths;  // of the input, each hidden layer and the output

  std::int64_t in() const { return widths.front(); }
  std::int64_t out() const { return widths.back(); }
  std::size_t layers() const { return widths.size() - 1; }
  std::int64_t size() const { return offset(layers()); }
  // Offset of layer l, which begins with its weight.
  std::int64_t offset(std::size_t l) const;
  std::int64_t bias_offset(std::size_t l) const { return offset(l) + widths[l] * widths[l + 1]; }

  // x: [N, in] -> [N, out], on any device, with gradients. parameters: [size()].
  at::Tensor forward(const at::Tensor& parameters, const at::Tensor& x) const;

  // Draws weights and biases uniformly within 1 / sqrt(in) of 0, as torch::nn::Linear does, from a
  // generator seeded with `seed`.
  void initialise(at::Tensor parameters, std::uint64_t seed) const;
};

}  // namespace shoal
