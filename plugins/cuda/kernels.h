#pragma once

#include "src/compute/cuda_kernels.h"

// The functions of the CudaKernels table; each is defined beside its kernel.
namespace shoal::cuda {

const char* stack_frames(const StackedFrames& in, void* stream);
const char* choose_categorical(const CategoricalRows& in, void* stream);
const char* gae(const Gae& in, void* stream);
const char* vtrace(const VTraceColumns& in, void* stream);
const char* n_step(const NStep& in, void* stream);
const char* project(const Projection& in, void* stream);
const char* fill_noise(const NoiseRows& in, void* stream);

}  // namespace shoal::cuda
