#pragma once

#include <c10/core/Allocator.h>

// The functions that LibTorch needs of the stand-in device.
namespace shoal::testing {

c10::Allocator& device_allocator();
// Registers the device and its operations with LibTorch. May be called repeatedly.
void start_backend();
void watch_host_operations();

}  // namespace shoal::testing
