#include "plugins/cuda/cuda_accelerator.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace shoal::cuda {
namespace {

void wait_for(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& other) {
  at::cuda::CUDAEvent done;
  done.record(other);
  done.block(waiting);
}

// CUDA records what is started on a stream other than the default one.
class Graph : public WorkGraph {
 public:
  explicit Graph(const std::function<void()>& work) {
    const auto here = c10::cuda::getCurrentCUDAStream();
    const auto side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, here.device_index());
    wait_for(side, here);
    record_on(side, work);
    wait_for(here, side);
  }
  void replay() override { graph_.replay(); }

 private:
  void record_on(const c10::cuda::CUDAStream& stream, const std::function<void()>& work) {
    const c10::cuda::CUDAStreamGuard guard(stream);
    // Other threads may act, learn and allocate meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph_.capture_end();
      } catch (const std::exception&) {  // a recording that was broken cannot be ended without
      }
      cudaGetLastError();
      throw;
    }
    graph_.capture_end();
  }

  at::cuda::CUDAGraph graph_;
};

class CudaAccelerator : public Accelerator {
 public:
  const CudaKernels& kernels() const override { return cuda::kernels(); }
  void* stream() const override { return c10::cuda::getCurrentCUDAStream().stream(); }

  std::shared_ptr<void> pin(std::span<std::byte> memory) override {
    if (cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    return {memory.data(), [](void* begin) { cudaHostUnregister(begin); }};
  }

  std::unique_ptr<WorkGraph> record(const std::function<void()>& work) override {
    return std::make_unique<Graph>(work);
  }

  void wait() override { c10::cuda::getCurrentCUDAStream().synchronize(); }
};

}  // namespace

Accelerator* accelerator() {
  // Never freed: tensors that were pinned by it may outlive everything.
  static auto* const kAccelerator = new CudaAccelerator;
  return kAccelerator;
}

}  // namespace shoal::cuda
