#include "src/compute/accelerator.h"

#include <array>
#include <atomic>

#include "shoal/core/error.h"

namespace shoal {
namespace {

std::atomic<Accelerator*>& known(c10::DeviceType type) {
  static std::array<std::atomic<Accelerator*>, c10::COMPILE_TIME_MAX_DEVICE_TYPES> all{};
  return all[static_cast<std::size_t>(type)];
}

}  // namespace

Accelerator* accelerator(const c10::Device& device) {
  return known(device.type()).load(std::memory_order_acquire);
}

void set_accelerator(c10::DeviceType type, Accelerator* accelerator) {
  known(type).store(accelerator, std::memory_order_release);
}

bool is_host(const c10::Device& device) {
  return device.is_cpu() && accelerator(device) == nullptr;
}

void require_started(const char* kernel, const char* error) {
  require(error == nullptr, "cannot launch the kernel {}: {}", kernel, error);
}

}  // namespace shoal
