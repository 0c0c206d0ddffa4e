#pragma once

#include <ATen/ATen.h>

namespace shoal {

// A device copy, at a fixed address, of a small host tensor that changes occasionally.
class DeviceCopy {
 public:
  // Updates the copy if the numbers have changed. Valid until the device changes.
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
