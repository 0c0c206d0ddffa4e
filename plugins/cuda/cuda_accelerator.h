#pragma once

#include "src/compute/accelerator.h"

namespace shoal::cuda {

const CudaKernels& kernels();
Accelerator* accelerator();

}  // namespace shoal::cuda
