#include "plugins/cuda/kernels.h"

extern "C" __attribute__((visibility("default"))) const shoal::CudaKernels*
shoal_cuda_get_kernels() {
  static constexpr shoal::CudaKernels kKernels{
      .version = shoal::CudaKernels::kVersion,
      .stack_frames = shoal::cuda::stack_frames,
      .choose_categorical = shoal::cuda::choose_categorical,
      .gae = shoal::cuda::gae,
      .vtrace = shoal::cuda::vtrace,
      .n_step = shoal::cuda::n_step,
      .project = shoal::cuda::project};
  return &kKernels;
}
