#pragma once

// Marks a function that CUDA kernels also call. It is compiled for the GPU and for the CPU, where
// tests run it, and uses only the core language, <cmath> and other marked functions.
#ifdef __CUDACC__
#define SHOAL_HOST_DEVICE __host__ __device__
#else
#define SHOAL_HOST_DEVICE
#endif
