#pragma once

#include "src/device/accelerator.h"

namespace shoal::cuda {

const CudaKernels& kernels();
Accelerator* accelerator();

}  // namespace shoal::cuda
