#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "src/compute/cuda_kernels.h"

namespace shoal {

// A captured graph of operations, launched as a whole.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Launches the graph on the memory addresses of its capture.
  virtual void replay() = 0;
};

// Device functions beyond ATen's operations. They apply to the current device and stream, and are
// called by one thread at a time.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  virtual const CudaKernels& kernels() const = 0;
  // The stream for kernels(), on which ATen also runs; call it under a c10::DeviceGuard.
  virtual void* stream() const = 0;
  // Pins host memory, so that copies from and to it are asynchronous, until the result is
  // destroyed. Null if the system refuses; copies are then synchronous.
  virtual std::shared_ptr<void> pin(std::span<std::byte> memory) = 0;
  // Captures the operations of `work` without running them. The work must write its results to
  // tensors that exist already: other graphs may reuse memory that it allocates. Throws an
  // exception, and the device does nothing, if an operation cannot be captured, e.g. one that waits
  // for the device.
  virtual std::unique_ptr<DeviceGraph> capture(const std::function<void()>& work) = 0;
  // Gives this thread a high-priority stream of its own, independent of other work, until the
  // result is destroyed by the same thread, which then waits for its work.
  virtual std::shared_ptr<void> own_stream() = 0;
  // Waits for all work on the device.
  virtual void wait() = 0;
};

// The accelerator of a device; null for the CPU, and where its plugin was not built: ATen alone
// then does the work, more slowly.
Accelerator* accelerator(const c10::Device& device);
// Registers the accelerator for all threads; call it before tensors are made on the device.
void set_accelerator(c10::DeviceType type, Accelerator* accelerator);

// Whether tensors on the device are in host memory, so that loops may access them.
bool is_host(const c10::Device& device);

// Throws Error if `error`, the result of a kernel launch, is not null.
void require_started(const char* kernel, const char* error);

}  // namespace shoal
