#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "src/compute/accelerator.h"

namespace shoal::testing {

inline const c10::Device kStandIn{c10::DeviceType::PrivateUse1, 0};

// A LibTorch device with the rules of a GPU, whose operations the CPU computes. It has its own
// memory (DeviceMemory), so that tensors have to be moved to kStandIn.
//
// - A graph repeats the operations that were called during its capture, with the same memory and
// with
//   the host values (numbers, tensors of one number) of the capture. A replay throws if memory that
//   it uses has been freed. During the capture the device computes nothing.
// - Memory that is allocated during a capture is overwritten after it and after every replay,
//   unless it is still in use.
// - A capture fails at waits for the device, at unpinned host memory, at results whose shape
//   depends on values, and at operations on host tensors.
// - An asynchronous copy accesses host memory as late as wait() allows: early reads find garbage,
//   and early changes are reported in faults().
class StandInDevice : public Accelerator {
 public:
  StandInDevice();
  ~StandInDevice() override;
  StandInDevice(const StandInDevice&) = delete;
  StandInDevice& operator=(const StandInDevice&) = delete;

  const CudaKernels& kernels() const override;
  void* stream() const override { return nullptr; }
  std::shared_ptr<void> pin(std::span<std::byte> memory) override;
  std::unique_ptr<DeviceGraph> capture(const std::function<void()>& work) override;
  std::shared_ptr<void> own_stream() override;
  void wait() override;

  std::atomic<int> pins = 0;

  // Mistakes of the program since the last call.
  static std::vector<std::string> faults();
};

}  // namespace shoal::testing
