#pragma once

#include <ATen/core/Tensor.h>

#include "shoal/data/samples.h"

namespace shoal {

// Images for a convolution, formed in one pass: stacked or single uint8 images, gathered by index,
// as values 0..255 of `dtype` (float32 or bfloat16, both exact). [N, stack, H, W] with the channels
// innermost in memory (channels-last), so that nothing has to be permuted later. Blank frames
// become zeros.
at::Tensor images(const Observed& observation, at::ScalarType dtype);

}  // namespace shoal
