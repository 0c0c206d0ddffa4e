#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace shoal {

// Convolutions without padding, followed by ReLU, for training on the CPU: Winograd's algorithm
// takes about half of the multiplications (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", arXiv 1509.09308). A filter of R * stride x R * stride pixels is applied as one
// of R x R cells of stride x stride pixels.

// Whether the algorithm supports the layer: R is 2 or 3, the filters are a multiple of 32, and
// channels * stride is a multiple of 16. x: [N, C, H, W] float32 or uint8 on the CPU; weight:
// [filters, C, R * stride, R * stride] float32.
bool fits_winograd(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride);

// relu(conv2d(x, weight, bias, stride)): [N, filters, H', W'] float32, channels last in memory, as
// x has to be to avoid a copy. Differentiable once by weight, bias and a float32 x. Neither results
// nor gradients depend on the number of threads, and the output of an image does not depend on the
// other images. A number that is not finite makes all outputs of its tile NaN. Throws
// Error if a second derivative is asked for.
at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, std::int64_t stride);

}  // namespace shoal
