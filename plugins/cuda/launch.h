#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace shoal::cuda {

// Threads per block; a warp has 32.
constexpr unsigned kThreads = 128;
// Limit of a grid's second dimension; kernels stride over more rows.
constexpr std::int64_t kMostRows = 65535;

inline unsigned blocks(std::int64_t elements, unsigned threads = kThreads) {
  return static_cast<unsigned>((elements + threads - 1) / threads);
}

inline unsigned rows(std::int64_t n) { return static_cast<unsigned>(std::min(n, kMostRows)); }

// The error of the previous launch. Reading it clears it, unless the device is lost.
inline const char* launched() {
  const auto error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace shoal::cuda
