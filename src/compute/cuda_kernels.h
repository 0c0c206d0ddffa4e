#pragma once

#include "src/compute/categorical.h"
#include "src/compute/gae.h"
#include "src/compute/n_step.h"
#include "src/compute/noise.h"
#include "src/compute/projection.h"
#include "src/compute/stacked_frames.h"
#include "src/compute/vtrace.h"

namespace shoal {

class Accelerator;

// Functions of the CUDA plugin. Each launches one kernel asynchronously.
//
// All pointers in the arguments are on the current device, contiguous, and valid until the kernel
// has run. No output overlaps an input, except accumulated outputs. `stream` is a cudaStream_t of
// that device; nullptr is the default stream. Nothing is launched for an empty computation. Returns
// nullptr or an error text that is never freed: an invalid argument, or a CUDA error, which may
// stem from an earlier kernel.
//
// A kernel runs the function of the header above on every element. Its results are bitwise those of
// the function on the CPU, except for exp and log, which differ in the last bits
// (choose_categorical, vtrace).
struct CudaKernels {
  static constexpr int kVersion = 2;  // incremented for every change to this struct or to an
                                      // argument
  int version;

  const char* (*stack_frames)(const StackedFrames& in, void* stream);          // write_pixel()
  const char* (*choose_categorical)(const CategoricalRows& in, void* stream);  // choose_row()
  const char* (*gae)(const Gae& in, void* stream);                             // gae_column()
  const char* (*vtrace)(const VTraceColumns& in, void* stream);                // vtrace_column()
  const char* (*n_step)(const NStep& in, void* stream);                        // n_step_cell()
  const char* (*project)(const Projection& in, void* stream);                  // project_atom()
  const char* (*fill_noise)(const NoiseRows& in, void* stream);                // noise_cell()

  // The device's other functions, with these kernels; never freed.
  Accelerator* (*accelerator)();
};

// The exported symbol of the plugin, and its type.
using GetCudaKernels = const CudaKernels* (*)();
#define SHOAL_CUDA_GET_KERNELS "shoal_cuda_get_kernels"

}  // namespace shoal
