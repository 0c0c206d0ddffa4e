#pragma once

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <cmath>

namespace shoal {

// Fills a weight [out, ...] with orthonormal rows (or columns) times `gain` (Saxe et al., arXiv
// 1312.6120). It draws from `generator`, so making a model does not affect other random numbers.
inline void make_orthogonal(at::Tensor weight, double gain, at::Generator generator) {
  torch::NoGradGuard no_grad;
  const auto rows = weight.size(0), columns = weight.numel() / rows;
  auto random = at::randn({std::max(rows, columns), std::min(rows, columns)}, generator);
  auto [q, r] = at::linalg_qr(random);
  q = q * r.diagonal().sign();  // makes the distribution uniform
  if (rows < columns) q = q.t();
  weight.copy_(q.reshape(weight.sizes()).mul(gain));
}

template <class Layer>
Layer initialised(Layer layer, double gain, const at::Generator& generator) {
  make_orthogonal(layer->weight, gain, generator);
  torch::NoGradGuard no_grad;
  layer->bias.zero_();
  return layer;
}

inline const double kReluGain = std::sqrt(2.0);

}  // namespace shoal
