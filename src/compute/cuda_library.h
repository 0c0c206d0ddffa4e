#pragma once

#include "src/compute/cuda_kernels.h"

namespace shoal {

// The kernels of the CUDA plugin, which the first call loads; it is never unloaded. nullptr if it
// was not built, or if the environment variable SHOAL_CUDA_PLUGIN names no file. Loading does not
// initialise CUDA, but needs the CUDA runtime, that of LibTorch's CUDA libraries if they are loaded
// already. Throws Error if it cannot be loaded or has another version.
const CudaKernels* cuda_kernels();

}  // namespace shoal
