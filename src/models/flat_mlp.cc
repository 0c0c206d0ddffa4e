#include "shoal/models/flat_mlp.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/utils.h>

#include <cmath>

namespace shoal {

std::int64_t FlatMlp::offset(std::size_t l) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < l; ++i) sum += (widths[i] + 1) * widths[i + 1];
  return sum;
}

at::Tensor FlatMlp::forward(const at::Tensor& parameters, const at::Tensor& x) const {
  auto y = x;
  for (std::size_t l = 0; l < layers(); ++l) {
    const auto in = widths[l], out = widths[l + 1];
    const auto weight = parameters.narrow(0, offset(l), in * out).view({out, in});
    y = at::linear(y, weight, parameters.narrow(0, bias_offset(l), out));
    if (l + 1 < layers()) y = y.relu();
  }
  return y;
}

void FlatMlp::initialise(at::Tensor parameters, std::uint64_t seed) const {
  torch::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (std::size_t l = 0; l < layers(); ++l) {
    const double bound = 1 / std::sqrt(static_cast<double>(widths[l]));
    parameters.narrow(0, offset(l), offset(l + 1) - offset(l)).uniform_(-bound, bound, generator);
  }
}

}  // namespace shoal
