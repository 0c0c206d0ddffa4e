#include "plugins/cuda/kernels.h"
#include "plugins/cuda/launch.h"

namespace shoal::cuda {
namespace {

// One thread per row: each has few numbers.
__global__ void fill(const NoiseRows in) {
  const auto row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= in.N) return;
  for (std::int64_t j = 0; j < in.numbers; ++j) noise_cell(in, row, j);
}

}  // namespace

const char* fill_noise(const NoiseRows& in, void* stream) {
  if (in.N < 0 || in.numbers < 0) return "fill_noise: a size is below 0";
  if (in.N == 0 || in.numbers == 0) return nullptr;
  fill<<<blocks(in.N), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  return launched();
}

}  // namespace shoal::cuda
