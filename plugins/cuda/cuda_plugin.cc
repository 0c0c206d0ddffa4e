#include "plugins/cuda/cuda_accelerator.h"
#include "plugins/cuda/kernels.h"

namespace shoal::cuda {

const CudaKernels& kernels() {
  static constexpr CudaKernels kKernels{.version = CudaKernels::kVersion,
                                        .stack_frames = stack_frames,
                                        .choose_categorical = choose_categorical,
                                        .gae = gae,
                                        .vtrace = vtrace,
                                        .n_step = n_step,
                                        .project = project,
                                        .fill_noise = fill_noise,
                                        .accelerator = accelerator};
  return kKernels;
}

}  // namespace shoal::cuda

extern "C" __attribute__((visibility("default"))) const shoal::CudaKernels*
shoal_cuda_get_kernels() {
  return &shoal::cuda::kernels();
}
