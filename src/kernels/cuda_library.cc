#include "src/kernels/cuda_library.h"

#include <filesystem>
#include <system_error>

#include "shoal/core/error.h"
#include "src/core/plugin.h"

namespace shoal {
namespace {

const CudaKernels* load_kernels() {
  const Plugin plugin{.what = "CUDA",
                      .file = "shoal_cuda.so",
                      .variable = "SHOAL_CUDA_PLUGIN",
                      .built = SHOAL_CUDA_PLUGIN_PATH,
                      .option = "SHOAL_WITH_CUDA",
                      .symbol = SHOAL_CUDA_GET_KERNELS};
  std::error_code ignored;
  if (!std::filesystem::exists(plugin.path(), ignored)) return nullptr;
  const CudaKernels* kernels = reinterpret_cast<GetCudaKernels>(plugin.load())();
  require(kernels->version == CudaKernels::kVersion,
          "the CUDA plugin {} has version {}, this program needs {}: build it again",
          plugin.path().string(), kernels->version, int{CudaKernels::kVersion});
  return kernels;
}

}  // namespace

const CudaKernels* cuda_kernels() {
  static const CudaKernels* const kKernels = load_kernels();
  return kKernels;
}

}  // namespace shoal
