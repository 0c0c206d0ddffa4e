#pragma once

#include <c10/core/Allocator.h>

// What LibTorch needs of the stand-in device.
namespace shoal::testing {

c10::Allocator& device_allocator();
// Makes the device, and its operations, known to LibTorch; once is enough.
void start_backend();
void watch_host_operations();

}  // namespace shoal::testing
