#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "shoal/data/samples.h"
#include "shoal/models/acting_network.h"

namespace shoal {

// By which a network divides pixels: bytes by their highest value, so that they become 0 to 1; 1
// for other numbers.
double pixel_range(const ArraySpec& picture);

// Whether this CPU multiplies bfloat16 faster than float32: by AMX, or by AVX512-BF16 of AMD.
// Intel's AVX512-BF16 has half the rate of float32 (see docs/performance.md), and emulation is
// slower still.
bool has_fast_bf16();

// The dtype in which the layers of a CNN are computed: bfloat16 on the CPU only if that is faster.
at::ScalarType compute_dtype(Precision precision, const at::Device& device);

// images() for the first relu_convolution(), which reads bytes on the CPU, in float32 and with AMX.
at::Tensor first_layer_input(const Observed& observation, at::ScalarType dtype);

// relu(conv2d(x, weight, bias, stride)) in this dtype, by winograd_convolution() or
// amx_convolution() where that is faster. x and the result: [N, channels, H, W], channels last in
// memory.
at::Tensor relu_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            std::int64_t stride, at::ScalarType dtype);

}  // namespace shoal
