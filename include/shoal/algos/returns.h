#pragma once

#include <ATen/core/Tensor.h>

#include "shoal/data/samples.h"

namespace shoal {

struct Advantages {
  at::Tensor advantage;  // [T, B] float32
  at::Tensor target;     // [T, B] float32: advantage + value, the target of the value function
};

// Generalized advantage estimation (Schulman et al., arXiv 1506.02438, equation 16):
//   A_t = sum over l of (discount * lambda)^l * delta_{t+l}
//   delta_t = r_t + discount * V(s_{t+1}) - V(s_t)
// Sums stop where an episode ends. V(s_{t+1}) is 0 after a terminated step, the value of the final
// observation after a truncated step, and the bootstrap value after the last row. delta is 0 where
// a step is not valid. value: [T, B] float32, the values of rows 0..T-1.
Advantages generalized_advantages(const Samples& samples, const at::Tensor& value, double discount,
                                  double lambda);

// The fields of Samples that returns are computed from, of all environments or some.
struct Outcomes {
  at::Tensor reward, terminated, truncated, valid, final_value;  // [T, n]
  at::Tensor bootstrap_value;                                    // [n]
};
Outcomes outcomes(const Samples& samples);
Outcomes select(const Outcomes& outcomes, const at::Tensor& envs);  // envs: [n'] int64

struct VTraceOptions {
  double discount = 0.99;
  double lambda = 1;              // of remark 2; 1: as in the paper
  double rho_bar = 1, c_bar = 1;  // upper bounds of the ratios of differences, and of traces
};

struct VTrace {
  at::Tensor target;     // [T, n] float32: v_s, the target of the value function
  at::Tensor advantage;  // [T, n]: r_s + discount * v_{s+1} - V(x_s), for the policy gradient
  at::Tensor rho;        // [T, n]: min(rho_bar, ratio), a factor of the policy gradient
};

// V-trace (Espeholt et al., IMPALA, arXiv 1802.01561, equation 1), for rollouts whose behaviour
// policy differs from the learning policy:
//   v_s = V(x_s) + sum over t >= s of discount^{t-s} (c_s ... c_{t-1}) rho_t delta_t
//   delta_t = r_t + discount * V(x_{t+1}) - V(x_t),  c_t = lambda * min(c_bar, ratio_t)
// Sums stop where an episode ends, and V(x_{t+1}) there is as in generalized_advantages(); v_s is
// V(x_s) where a step is not valid. value: [T, n] float32, of the learning policy. log_ratio:
// [T, n] float32, log of the action's probability under the learning policy over that under the
// behaviour policy. Neither needs gradients.
VTrace vtrace(const Outcomes& outcomes, const at::Tensor& value, const at::Tensor& log_ratio,
              const VTraceOptions& options);

}  // namespace shoal
