#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace shoal {

// Convolutions without padding, followed by ReLU, for training on a CPU with AMX: in bfloat16, with
// sums in float32. A filter of R * stride x R * stride pixels is applied as one of R x R cells of
// stride x stride pixels, so that the factors of 16 outputs beside each other are rows of a tile.

// Whether this CPU has AMX and the algorithm supports the layer: filters and the numbers of a cell
// are multiples of 32, and channels * stride is one of 16. x: [N, C, H, W] bfloat16 or uint8 on the
// CPU; weight: [filters, C, R * stride, R * stride].
bool fits_amx_convolution(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride);

// relu(conv2d(x, weight, bias, stride)): [N, filters, H', W'] bfloat16, channels last in memory, as
// x has to be to avoid a copy. weight and bias: float32; the weights are rounded to bfloat16.
// Differentiable once by weight, bias and a bfloat16 x. Neither results nor gradients depend on the
// number of threads, and the output of an image does not depend on the other images. A number that
// is not finite reaches the outputs that read it, and may make gradients NaN beside those of
// LibTorch. Throws Error if a second derivative is asked for.
at::Tensor amx_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           std::int64_t stride);

}  // namespace shoal
