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

// What the plugin for CUDA offers. Each function starts one kernel and does not wait for it.
//
// All pointers of the arguments are of the current device, contiguous, and stay valid until the
// kernel has run; no output overlaps an input, but for what is added to. `stream` is a cudaStream_t
// of that device; nullptr is the default one. With nothing to compute, nothing is started. Returns
// nullptr, or what went wrong, a text that is never freed: an argument that makes no sense, or an
// error of CUDA, which may stem from a kernel before.
//
// A kernel runs the function of the header above on every element; its results are those of the
// same function on the CPU, bit for bit, but for exp and log, which differ in their last bits
// (choose_categorical, vtrace).
struct CudaKernels {
  static constexpr int kVersion = 2;  // changes with every change of this or of an argument
  int version;

  const char* (*stack_frames)(const StackedFrames& in, void* stream);          // write_pixel()
  const char* (*choose_categorical)(const CategoricalRows& in, void* stream);  // choose_row()
  const char* (*gae)(const Gae& in, void* stream);                             // gae_column()
  const char* (*vtrace)(const VTraceColumns& in, void* stream);                // vtrace_column()
  const char* (*n_step)(const NStep& in, void* stream);                        // n_step_cell()
  const char* (*project)(const Projection& in, void* stream);                  // project_atom()
  const char* (*fill_noise)(const NoiseRows& in, void* stream);                // noise_cell()

  // What else there is on the device, with these kernels; never freed.
  Accelerator* (*accelerator)();
};

// The only symbol of the plugin, and its type.
using GetCudaKernels = const CudaKernels* (*)();
#define SHOAL_CUDA_GET_KERNELS "shoal_cuda_get_kernels"

}  // namespace shoal
