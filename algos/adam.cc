#include "algos/adam.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace shoal {

AdamStep adam_step(double t, double rate, double epsilon) {
  return {.rate = static_cast<float>(rate / (1 - std::pow(0.9, t))),
          .root = static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, t))),
          .epsilon = static_cast<float>(epsilon),
          .tau = 0};
}

void take_adam_step(AdamStep step, const AdamTensors& tensors) {
  auto* const parameter = tensors.parameter.data_ptr<float>();
  auto* const mean = tensors.mean.data_ptr<float>();
  auto* const square = tensors.square.data_ptr<float>();
  const auto* const gradient = tensors.gradient.const_data_ptr<float>();
  const auto size = tensors.parameter.numel();
  constexpr std::int64_t kBlock = 4096;  // so that vectors are the same with any number of threads
  constexpr std::int64_t kLeastBlocks = 4;  // of a thread
  at::parallel_for(0, divide_up(size, kBlock), kLeastBlocks,
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
