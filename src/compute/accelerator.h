#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "src/compute/cuda_kernels.h"

namespace shoal {

// Work that was recorded once, and is then started as a whole.
class WorkGraph {
 public:
  virtual ~WorkGraph() = default;
  // Starts all of it, on the memory that it was recorded with.
  virtual void replay() = 0;
};

// What a device offers besides ATen's operations. All of it is of the current device and stream,
// and called by one thread at a time.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  virtual const CudaKernels& kernels() const = 0;
  // For kernels(), under a c10::DeviceGuard: where ATen's operations are started, too.
  virtual void* stream() const = 0;
  // Lets copies from and to this memory of the host go on while the caller does something else.
  // Until the returned one is freed; null if the system refuses, and copies wait then.
  virtual std::shared_ptr<void> pin(std::span<std::byte> memory) = 0;
  // Calls `work`, which is recorded and not done. It leaves its results in tensors that were there
  // before: what it allocates, other recordings may write over. Throws an exception if it does what
  // cannot be recorded, e.g. waits for the device; the device does nothing of it then.
  virtual std::unique_ptr<WorkGraph> record(const std::function<void()>& work) = 0;
  // What this thread starts from now on need not wait for what others have started, and goes before
  // it. Until the returned one is freed, by the same thread, which waits for what it has started.
  virtual std::shared_ptr<void> own_stream() = 0;
  // Returns when the device has done everything that was started.
  virtual void wait() = 0;
};

// That of a kind of device; null for the CPU, and where the plugin was not built: ATen alone does
// it then, more slowly.
Accelerator* accelerator(const c10::Device& device);
// Makes it known, for all threads; before tensors are made there.
void set_accelerator(c10::DeviceType type, Accelerator* accelerator);

// Whether tensors on the device are the host's own memory, which loops may go over.
bool is_host(const c10::Device& device);

// Throws Error if a kernel could not be started.
void require_started(const char* kernel, const char* error);

}  // namespace shoal
