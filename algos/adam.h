#pragma once

#include <ATen/core/Tensor.h>

#include "src/models/panel_kernels.h"

namespace shoal {

// The factors of step t, counted from 1, which all parameters share.
AdamStep make_adam_step(double t, double rate, double epsilon);

// Moments are moving averages of gradients and of their squares. All are float32 on the host, with
// the same dense strides.
struct AdamTensors {
  const at::Tensor &parameter, &mean, &square, &gradient;
};
// One step, split over threads. The result does not depend on their number.
void apply_adam(AdamStep step, const AdamTensors& tensors);

}  // namespace shoal
