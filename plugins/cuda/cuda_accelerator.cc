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

// Where a device's recordings are made: CUDA records what is started on a stream other than the
// default one. Since they leave nothing in memory that they allocate, and are replayed one after
// the other, all can have the same; a rollout alone may be hundreds of them.
struct Studio {
  explicit Studio(c10::DeviceIndex on) : device(on) {
    // A use of its own, which never ends: LibTorch takes no memory up again that nothing uses.
    c10::cuda::CUDACachingAllocator::beginAllocateToPool(device, memory,
                                                         [](cudaStream_t) { return false; });
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device, memory);
    auto* const host = at::getHostAllocator(at::kCUDA);
    host->begin_allocate_to_pool(memory, [](c10::Stream) { return false; });
    host->end_allocate_to_pool(memory);
  }
  // After a recording that was broken: what LibTorch leaves open then, it would take for one that
  // goes on, for ever.
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

const Studio& studio(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, Studio> all;
  const std::scoped_lock lock(mutex);
  return all.try_emplace(device, device).first->second;
}

class Graph : public WorkGraph {
 public:
  explicit Graph(const std::function<void()>& work) {
    const auto here = c10::cuda::getCurrentCUDAStream();
    const auto& there = studio(here.device_index());
    wait_for(there.stream, here);
    record(there, work);
    wait_for(here, there.stream);
  }
  void replay() override { graph_.replay(); }

 private:
  void record(const Studio& there, const std::function<void()>& work) {
    const c10::cuda::CUDAStreamGuard guard(there.stream);
    // Its work space must outlive the recording's memory; that of autograd's thread, which comes
    // from there, LibTorch keeps.
    at::cuda::getCurrentCUDABlasHandle();
    std::exception_ptr failure;
    try {
      // Other threads may act, learn and allocate meanwhile.
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

// Makes a stream the thread's current one, and waits for what was started there.
class OwnStream {
 public:
  OwnStream() : guard_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)) {}
  ~OwnStream() {
    try {
      guard_.current_stream().synchronize();
    } catch (const std::exception&) {  // whoever used it last has been told
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

  std::unique_ptr<WorkGraph> record(const std::function<void()>& work) override {
    return std::make_unique<Graph>(work);
  }

  std::shared_ptr<void> own_stream() override { return std::make_shared<OwnStream>(); }

  void wait() override { c10::cuda::getCurrentCUDAStream().synchronize(); }
};

}  // namespace

Accelerator* accelerator() {
  // Never freed: tensors that were pinned by it may outlive everything.
  static auto* const kAccelerator = new CudaAccelerator;
  return kAccelerator;
}

}  // namespace shoal::cuda
