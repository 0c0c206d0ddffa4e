#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "shoal/data/samples.h"
#include "shoal/models/acting_network.h"

namespace shoal {

// In which numbers the layers of pictures are computed. On a CPU without AMX kBf16 means float32,
// which is faster there: see docs/performance.md.
at::ScalarType arithmetic_of(Precision precision, const at::Device& device);
// Whether this CPU multiplies bfloat16 in tiles (AMX).
bool has_fast_bf16();

// images() as the first of these convolutions reads them: bytes stay bytes if it widens them
// itself.
at::Tensor pictures(const Observed& observation, at::ScalarType arithmetic);

// relu(conv2d(x, weight, bias, stride)) in these numbers, by winograd.h where that fits. x, the
// result: [N, channels, H, W], channels last in memory.
at::Tensor relu_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            std::int64_t stride, at::ScalarType arithmetic);

}  // namespace shoal
