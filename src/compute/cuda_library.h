#pragma once

#include "src/compute/cuda_kernels.h"

namespace shoal {

// The kernels of the plugin for CUDA, which the first call loads into this process for good;
// nullptr where it was not built, or the environment's SHOAL_CUDA_PLUGIN names no file. Loading it
// starts no CUDA, but it needs CUDA's runtime, the one of LibTorch's CUDA half if that is loaded
// before. Throws Error if it cannot be loaded or is of another version.
const CudaKernels* cuda_kernels();

}  // namespace shoal
