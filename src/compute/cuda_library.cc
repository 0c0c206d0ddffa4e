#include "src/compute/cuda_library.h"

#include "src/core/plugin.h"

namespace shoal {
namespace {

const CudaKernels* load_kernels() {
  const Plugin plugin{.name = "CUDA",
                      .file = "shoal_cuda.so",
                      .variable = "SHOAL_CUDA_PLUGIN",
                      .option = "SHOAL_WITH_CUDA",
                      .symbol = SHOAL_CUDA_GET_KERNELS,
                      .version = CudaKernels::kVersion};
  return plugin.exists() ? &plugin.load<CudaKernels>() : nullptr;
}

}  // namespace

const CudaKernels* cuda_kernels() {
  static const CudaKernels* const kKernels = load_kernels();
  return kKernels;
}

}  // namespace shoal
