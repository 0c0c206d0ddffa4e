#pragma once

#include <ATen/ATen.h>

namespace shoal {

// A copy of a few numbers of the host's, which change now and then, where a device reads them:
// always the same memory there.
class DeviceCopy {
 public:
  // Brought up to date if they have changed. Valid until they are wanted on another device.
  const at::Tensor& of(const at::Tensor& numbers, at::Device device) {
    if (!there_.defined() || there_.device() != device) {
      last_ = numbers.clone();
      there_ = numbers.to(device, /*non_blocking=*/false, /*copy=*/true);
    } else if (!at::equal(last_, numbers)) {
      last_.copy_(numbers);
      there_.copy_(numbers);
    }
    return there_;
  }

 private:
  at::Tensor last_, there_;
};

}  // namespace shoal
