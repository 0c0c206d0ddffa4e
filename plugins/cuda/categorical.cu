#include "plugins/cuda/kernels.h"
#include "plugins/cuda/launch.h"

namespace shoal::cuda {
namespace {

// One thread per row: choices are few, and sums keep the CPU's order.
__global__ void choose(const CategoricalRows in) {
  const auto row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < in.N) choose_row(in, row);
}

}  // namespace

const char* choose_categorical(const CategoricalRows& in, void* stream) {
  if (in.N < 0 || in.parts < 1) return "choose_categorical: a size is out of range";
  if ((in.action == nullptr) == (in.bit == nullptr))
    return "choose_categorical: set exactly one of `action` and `bit`";
  if (in.N == 0) return nullptr;
  choose<<<blocks(in.N), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  return launched();
}

}  // namespace shoal::cuda
