#pragma once

#include <ATen/core/Tensor.h>

#include "src/models/panel_kernels.h"

namespace shoal {

// What all parameters share in step t of Adam, counted from 1.
AdamStep adam_step(double t, double rate, double epsilon);

// The parameters, moments (moving averages of gradients and of their squares) and gradients of one
// step: float32 on the host, with the same dense strides.
struct AdamTensors {
  const at::Tensor &parameter, &mean, &square, &gradient;
};
// In parallel. The result does not depend on the number of threads.
void take_adam_step(AdamStep step, const AdamTensors& tensors);

}  // namespace shoal
