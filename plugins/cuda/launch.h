#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace shoal::cuda {

// Of a block; a warp is 32 of them.
constexpr unsigned kThreads = 128;
// What a grid's second dimension is cut at; kernels go on from there in strides of it.
constexpr std::int64_t kMostRows = 65535;

inline unsigned blocks(std::int64_t elements, unsigned threads = kThreads) {
  return static_cast<unsigned>((elements + threads - 1) / threads);
}

inline unsigned rows(std::int64_t n) { return static_cast<unsigned>(std::min(n, kMostRows)); }

// What became of the launch before. Reading an error clears it, unless the device is lost.
inline const char* launched() {
  const auto error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace shoal::cuda
