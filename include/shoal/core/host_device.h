#pragma once

// Marks a function that CUDA kernels call, too: such code is compiled for the GPU and for the CPU,
// where tests run it. It keeps to the language, <cmath> and other functions that are marked so.
#ifdef __CUDACC__
#define SHOAL_HOST_DEVICE __host__ __device__
#else
#define SHOAL_HOST_DEVICE
#endif
