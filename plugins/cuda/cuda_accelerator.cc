#include "plugins/cuda/cuda_accelerator.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <exception>
#include <map>
#include <mutex>

namespace shoal::cuda {
namespace {

void wait_for(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& other) {
  at::cuda::CUDAEvent done;
  done.record(other);
  done.block(waiting);
}

// The stream and memory pool of a device's captures: CUDA captures only on a non-default stream.
// Graphs leave no results in memory that they allocate, and are replayed one after the other, so
// all can share a pool; a single rollout may need hundreds of graphs.
struct CaptureContext {
  explicit CaptureContext(c10::DeviceIndex on) : device(on) {
    // A permanent user of the pool: LibTorch does not reuse a pool without users.
    c10::cuda::CUDACachingAllocator::beginAllocateToPool(device, memory,
                                                         [](cudaStream_t) { return false; });
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device, memory);
    auto* const host = at::getHostAllocator(at::kCUDA);
    host->begin_allocate_to_pool(memory, [](c10::Stream) { return false; });
    host->end_allocate_to_pool(memory);
  }
  // Cleans up after a failed capture: LibTorch would consider allocations still open as part of a
  // capture forever.
  void abandon() const {
    const auto attempt = [](const auto& act) {
      try {
        act();
      } catch (const std::exception&) {  // it was not open
      }
    };
    auto* const host = at::getHostAllocator(at::kCUDA);
    attempt([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, memory); });
    attempt([&] { c10::cuda::CUDACachingAllocator::releasePool(device, memory); });
    attempt([&] { host->end_allocate_to_pool(memory); });
    attempt([&] { host->release_pool(memory); });
  }

  c10::DeviceIndex device;
  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  at::MempoolId_t memory = at::cuda::graph_pool_handle();
};

const CaptureContext& capture_context(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, CaptureContext> all;
  const std::scoped_lock lock(mutex);
  return all.try_emplace(device, device).first->second;
}

class Graph : public DeviceGraph {
 public:
  explicit Graph(const std::function<void()>& work) {
    const auto here = c10::cuda::getCurrentCUDAStream();
    const auto& there = capture_context(here.device_index());
    wait_for(there.stream, here);
    capture(there, work);
    wait_for(here, there.stream);
  }
  void replay() override { graph_.replay(); }

 private:
  void capture(const CaptureContext& there, const std::function<void()>& work) {
    const c10::cuda::CUDAStreamGuard guard(there.stream);
    // Creates the cuBLAS workspace, which must outlive the capture's memory; LibTorch keeps the
    // workspace of autograd's thread, which derives from it.
    at::cuda::getCurrentCUDABlasHandle();
    std::exception_ptr failure;
    try {
      // Other threads may act, learn and allocate during the capture.
      graph_.capture_begin(there.memory, cudaStreamCaptureModeThreadLocal);
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    try {
      graph_.capture_end();
    } catch (...) {
      there.abandon();
      if (!failure) failure = std::current_exception();
    }
    if (!failure) return;
    cudaGetLastError();
    std::rethrow_exception(failure);
  }

  at::cuda::CUDAGraph graph_;
};

// Makes a stream the thread's current one; the destructor waits for its work.
class OwnStream {
 public:
  OwnStream() : guard_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)) {}
  ~OwnStream() {
    try {
      guard_.current_stream().synchronize();
    } catch (const std::exception&) {  // the error was reported to its last user
    }
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
  c10::cuda::CUDAStreamGuard guard_;
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

  std::unique_ptr<DeviceGraph> capture(const std::function<void()>& work) override {
    return std::make_unique<Graph>(work);
  }

  std::shared_ptr<void> own_stream() override { return std::make_shared<OwnStream>(); }

  void wait() override { c10::cuda::getCurrentCUDAStream().synchronize(); }
};

}  // namespace

Accelerator* accelerator() {
  // Never freed: tensors that it pinned may outlive all other objects.
  static auto* const kAccelerator = new CudaAccelerator;
  return kAccelerator;
}

}  // namespace shoal::cuda
