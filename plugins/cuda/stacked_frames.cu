#include "plugins/cuda/kernels.h"
#include "plugins/cuda/launch.h"

namespace shoal::cuda {
namespace {

// One thread per pixel of an observation, with coalesced reads and writes.
template <class Pixel, bool kFour>
__global__ void stack(const StackedFrames in) {
  const auto p = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (p >= in.pixels) return;
  for (std::int64_t n = blockIdx.y; n < in.N; n += gridDim.y) {
    if constexpr (kFour)
      write_pixel_of_four<Pixel>(in, n, p);
    else
      write_pixel<Pixel>(in, n, p);
  }
}

template <class Pixel>
void launch(const StackedFrames& in, cudaStream_t stream) {
  const dim3 grid(blocks(in.pixels), rows(in.N));
  if (is_four_grey_frames(in))
    stack<Pixel, true><<<grid, kThreads, 0, stream>>>(in);
  else
    stack<Pixel, false><<<grid, kThreads, 0, stream>>>(in);
}

}  // namespace

const char* stack_frames(const StackedFrames& in, void* stream) {
  if (in.N < 0 || in.stack < 1 || in.planes < 1 || in.pixels < 0)
    return "stack_frames: a size is out of range";
  if (in.N == 0 || in.pixels == 0) return nullptr;  // empty tensors have no memory to check
  if (in.index == nullptr && in.stack != 1) return "stack_frames: stacks without an index";
  if (reinterpret_cast<std::uintptr_t>(in.out) % 16 != 0)
    return "stack_frames: the output is not aligned to 16 bytes";
  const auto s = static_cast<cudaStream_t>(stream);
  if (in.type == PixelType::kFloat32)
    launch<float>(in, s);
  else
    launch<Bfloat16>(in, s);
  return launched();
}

}  // namespace shoal::cuda
