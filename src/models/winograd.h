#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace shoal {

// A convolution without padding, followed by ReLU, whose weights are applied in tiles of outputs,
// with about half of the multiplications (Lavin and Gray, arXiv 1509.09308): for learning on the
// CPU. A filter of size R * stride is one of R x R whole cells of stride x stride pixels.

// Whether the layer can be computed so: R is 2 or 3, the filters are a multiple of 32, and channels
// * stride one of 16. x: [N, C, H, W] float32 or uint8; weight: [filters, C, size, size] float32.
bool fits_winograd(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride);

// relu(conv2d(x, weight, bias, stride)), differentiable by x, if it is float32, weight and bias.
// [N, filters, H', W'] float32, channels last in memory, as x has to be to avoid a copy. The result
// does not depend on the number of threads; an image's does not on the others.
at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, std::int64_t stride);

}  // namespace shoal
