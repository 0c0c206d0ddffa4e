#pragma once

#include <atomic>

#include "src/compute/accelerator.h"

namespace shoal::testing {

// The kernels of the plugin, as loops over the same functions on the CPU.
const CudaKernels& kernels_on_the_cpu();

// While it is switched on, makes the CPU act as a device with its own memory, so that GPU code
// paths run, including all copies. A captured graph does its work when it is replayed.
class FakeAccelerator : public Accelerator {
 public:
  class On {
   public:
    explicit On(FakeAccelerator& fake) { set_accelerator(c10::kCPU, &fake); }
    ~On() { set_accelerator(c10::kCPU, nullptr); }
    On(const On&) = delete;
    On& operator=(const On&) = delete;
  };

  const CudaKernels& kernels() const override { return kernels_on_the_cpu(); }
  void* stream() const override { return nullptr; }
  std::shared_ptr<void> pin(std::span<std::byte> memory) override;
  std::unique_ptr<DeviceGraph> capture(const std::function<void()>& work) override;
  std::shared_ptr<void> own_stream() override {
    ++streams;
    return {this, [this](void*) { --streams; }};
  }
  void wait() override { ++waits; }

  bool refuses = false;  // capture() throws
  std::atomic<int> pins = 0, captures = 0, replays = 0, waits = 0, streams = 0;
};

}  // namespace shoal::testing
