#include "plugins/cuda/kernels.h"
#include "plugins/cuda/launch.h"

namespace shoal::cuda {
namespace {

// One thread per environment, backwards in time, with coalesced access at every step. Environments
// are few, so blocks are small and spread over the multiprocessors.
constexpr unsigned kColumns = 32;

__device__ std::int64_t column() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__global__ void gae_columns(const Gae in) {
  if (column() < in.rollout.B) gae_column(in, column());
}

__global__ void vtrace_columns(const VTraceColumns in) {
  if (column() < in.rollout.B) vtrace_column(in, column());
}

// Every step is independent here.
__global__ void n_step_cells(const NStep in) {
  if (column() >= in.rollout.B) return;
  for (std::int64_t t = blockIdx.y; t < in.rollout.T; t += gridDim.y) n_step_cell(in, t, column());
}

bool is_sized(const ValuedRollout& w) { return w.T >= 0 && w.B >= 0; }
bool is_empty(const ValuedRollout& w) { return w.T == 0 || w.B == 0; }

}  // namespace

const char* gae(const Gae& in, void* stream) {
  if (!is_sized(in.rollout)) return "gae: T or B is below 0";
  if (is_empty(in.rollout)) return nullptr;
  gae_columns<<<blocks(in.rollout.B, kColumns), kColumns, 0, static_cast<cudaStream_t>(stream)>>>(
      in);
  return launched();
}

const char* vtrace(const VTraceColumns& in, void* stream) {
  if (!is_sized(in.rollout)) return "vtrace: T or B is below 0";
  if (is_empty(in.rollout)) return nullptr;
  vtrace_columns<<<blocks(in.rollout.B, kColumns), kColumns, 0,
                   static_cast<cudaStream_t>(stream)>>>(in);
  return launched();
}

const char* n_step(const NStep& in, void* stream) {
  if (!is_sized(in.rollout)) return "n_step: T or B is below 0";
  if (in.n < 1) return "n_step: n is below 1";
  if (is_empty(in.rollout)) return nullptr;
  const dim3 grid(blocks(in.rollout.B, kColumns), rows(in.rollout.T));
  n_step_cells<<<grid, kColumns, 0, static_cast<cudaStream_t>(stream)>>>(in);
  return launched();
}

}  // namespace shoal::cuda
