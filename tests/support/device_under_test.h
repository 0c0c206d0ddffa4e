#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "shoal/runners/device.h"
#include "tests/support/stand_in_device.h"
#include "tests/support/watched_accelerator.h"

namespace shoal::testing {

// The parameter of tests that run on the stand-in device, and on a GPU if there is one.
enum class TestDevice : std::uint8_t { kNoGpu, kGpu };

inline std::string name_of(const ::testing::TestParamInfo<TestDevice>& test) {
  return test.param == TestDevice::kNoGpu ? "StandIn" : "Cuda";
}

class DeviceUnderTest {
 public:
  // Opens the device. Workers must have been forked before. Returns why the test must be skipped,
  // or an empty string.
  std::string open(TestDevice device) {
    if (device == TestDevice::kNoGpu) {
      stand_in_.emplace();
    } else {
      static const int kGpus = count_gpus();
      if (kGpus == 0) return "there is no GPU";
      device_ = {at::kCUDA, 0};
      open_device(device_);
      if (accelerator(device_) == nullptr) return "the plugin was not built";
    }
    watched_.emplace(device_.type());
    return {};
  }
  const at::Device& device() const { return device_; }
  WatchedAccelerator& watched() { return *watched_; }

 private:
  at::Device device_ = kStandIn;
  std::optional<StandInDevice> stand_in_;
  std::optional<WatchedAccelerator> watched_;
};

}  // namespace shoal::testing
