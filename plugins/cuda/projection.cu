#include "plugins/cuda/kernels.h"
#include "plugins/cuda/launch.h"

namespace shoal::cuda {
namespace {

// One thread per atom of a row.
__global__ void project_atoms(const Projection in) {
  const auto j = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= in.atoms) return;
  for (std::int64_t n = blockIdx.y; n < in.N; n += gridDim.y) project_atom(in, n, j);
}

}  // namespace

const char* project(const Projection& in, void* stream) {
  if (in.N < 0) return "project: N is below 0";
  if (in.atoms < 2) return "project: expected at least 2 atoms";
  if (in.N == 0) return nullptr;
  constexpr unsigned kAtoms = 64;  // the usual 51 atoms fit into one block
  const dim3 grid(blocks(in.atoms, kAtoms), rows(in.N));
  project_atoms<<<grid, kAtoms, 0, static_cast<cudaStream_t>(stream)>>>(in);
  return launched();
}

}  // namespace shoal::cuda
