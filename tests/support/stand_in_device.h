#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "src/compute/accelerator.h"

namespace shoal::testing {

inline const c10::Device kStandIn{c10::DeviceType::PrivateUse1, 0};

// A device of LibTorch's with the rules of a GPU, whose operations the CPU computes. Its memory is
// its own (DeviceMemory), so that tensors have to be moved to kStandIn.
//
// - A graph repeats the operations that were called during its capture: with the same memory, and
//   with what came from the host (numbers, tensors of one number) as it was then. Replaying it
//   throws if memory that it uses has been freed. During the capture the device computes nothing.
// - Memory that is allocated during a capture is overwritten after it and after every replay,
//   unless it is still in use.
// - A capture fails at what would wait for the device, at memory of the host that is not pinned, at
//   results whose shape depends on numbers, and at operations on tensors of the host.
// - An asynchronous copy reads the host's memory, and writes it, as late as wait() allows: early
//   reads find nonsense, and early changes are reported in faults().
class StandInDevice : public Accelerator {
 public:
  StandInDevice();
  ~StandInDevice() override;
  StandInDevice(const StandInDevice&) = delete;
  StandInDevice& operator=(const StandInDevice&) = delete;

  const CudaKernels& kernels() const override;
  void* stream() const override { return nullptr; }
  std::shared_ptr<void> pin(std::span<std::byte> memory) override;
  std::unique_ptr<WorkGraph> record(const std::function<void()>& work) override;
  std::shared_ptr<void> own_stream() override;
  void wait() override;

  std::atomic<int> pins = 0;

  // What the program did wrong since the last call.
  static std::vector<std::string> faults();
};

}  // namespace shoal::testing
