#include "algos/adam.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/core/divide_up.h"

namespace shoal {

AdamStep make_adam_step(double t, double rate, double epsilon) {
  return {.rate = static_cast<float>(rate / (1 - std::pow(kAdamBeta1, t))),
          .root = static_cast<float>(1 / std::sqrt(1 - std::pow(kAdamBeta2, t))),
          .epsilon = static_cast<float>(epsilon),
          .tau = 0};
}

void apply_adam(AdamStep step, const AdamTensors& tensors) {
  auto* const parameter = tensors.parameter.data_ptr<float>();
  auto* const mean = tensors.mean.data_ptr<float>();
  auto* const square = tensors.square.data_ptr<float>();
  const auto* const gradient = tensors.gradient.const_data_ptr<float>();
  const auto size = tensors.parameter.numel();
  constexpr std::int64_t kBlock = 4096;  // whole vectors, with any number of threads
  constexpr std::int64_t kGrainSize = 4;
  tensors.parameter.unsafeGetTensorImpl()->bump_version();  // as operations in place do
  at::parallel_for(0, divide_up(size, kBlock), kGrainSize,
                   [&](std::int64_t first, std::int64_t last) {
                     auto part = step;
                     const auto offset = first * kBlock;
                     part.n = std::min(last * kBlock, size) - offset;
                     part.parameter = parameter + offset;
                     part.mean = mean + offset;
                     part.square = square + offset;
                     part.gradient = gradient + offset;
                     panel_kernels().adam(part);
                   });
}

}  // namespace shoal
