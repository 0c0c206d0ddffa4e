#include "plugins/cuda/kernels.h"
#include "plugins/cuda/launch.h"

namespace shoal::cuda {
namespace {

// A thread has an environment and goes back in time: at every step, neighbours read and write side
// by side. Few environments, so small blocks: they spread over the processors.
constexpr unsigned kColumns = 32;

__device__ std::int64_t column() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__global__ void gae_columns(const Gae in) {
  if (column() < in.window.B) gae_column(in, column());
}

__global__ void vtrace_columns(const VTraceColumns in) {
  if (column() < in.window.B) vtrace_column(in, column());
}

// Here every step stands by itself.
__global__ void n_step_cells(const NStep in) {
  if (column() >= in.window.B) return;
  for (std::int64_t t = blockIdx.y; t < in.window.T; t += gridDim.y) n_step_cell(in, t, column());
}

bool is_sized(const ValuedWindow& w) { return w.T >= 0 && w.B >= 0; }
bool is_empty(const ValuedWindow& w) { return w.T == 0 || w.B == 0; }

}  // namespace

const char* gae(const Gae& in, void* stream) {
  if (!is_sized(in.window)) return "gae: T or B is below 0";
  if (is_empty(in.window)) return nullptr;
  gae_columns<<<blocks(in.window.B, kColumns), kColumns, 0, static_cast<cudaStream_t>(stream)>>>(
      in);
  return launched();
}

const char* vtrace(const VTraceColumns& in, void* stream) {
  if (!is_sized(in.window)) return "vtrace: T or B is below 0";
  if (is_empty(in.window)) return nullptr;
  vtrace_columns<<<blocks(in.window.B, kColumns), kColumns, 0, static_cast<cudaStream_t>(stream)>>>(
      in);
  return launched();
}

const char* n_step(const NStep& in, void* stream) {
  if (!is_sized(in.window)) return "n_step: T or B is below 0";
  if (in.n < 1) return "n_step: n is below 1";
  if (is_empty(in.window)) return nullptr;
  const dim3 grid(blocks(in.window.B, kColumns), rows(in.window.T));
  n_step_cells<<<grid, kColumns, 0, static_cast<cudaStream_t>(stream)>>>(in);
  return launched();
}

}  // namespace shoal::cuda
