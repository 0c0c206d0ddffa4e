#pragma once

#include <ATen/core/Tensor.h>

#include "shoal/data/samples.h"

namespace shoal {

struct Advantages {
  at::Tensor advantage;  // [T, B] float32
  at::Tensor target;     // [T, B] float32: advantage + value, what the value function should learn
};

// Generalized advantage estimation (Schulman et al., arXiv 1506.02438, equation 16):
//   A_t = sum over l of (discount * lambda)^l * delta_{t+l}
//   delta_t = r_t + discount * V(s_{t+1}) - V(s_t)
// Sums stop where an episode ends. V(s_{t+1}) is 0 after a terminated step, the value of the true
// last observation after a truncated one, and the bootstrap value after the last row. value: [T, B]
// float32, the values of rows 0..T-1.
Advantages generalized_advantages(const Samples& samples, const at::Tensor& value, double discount,
                                  double lambda);

}  // namespace shoal
