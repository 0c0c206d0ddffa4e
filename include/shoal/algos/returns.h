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
// last observation after a truncated one, and the bootstrap value after the last row. delta is 0
// where a step is not valid. value: [T, B] float32, the values of rows 0..T-1.
Advantages generalized_advantages(const Samples& samples, const at::Tensor& value, double discount,
                                  double lambda);

// What the rewards of a rollout lead to, of all its environments or some: as Samples has them.
struct Outcomes {
  at::Tensor reward, terminated, truncated, valid, final_value;  // [T, n]
  at::Tensor bootstrap_value;                                    // [n]
};
Outcomes outcomes(const Samples& samples);
Outcomes select(const Outcomes& outcomes, const at::Tensor& envs);  // envs: [n'] int64

struct VTraceOptions {
  double discount = 0.99;
  double lambda = 1;              // of remark 2; 1: as in the paper
  double rho_bar = 1, c_bar = 1;  // where ratios are cut: in differences, and in traces
};

struct VTrace {
  at::Tensor target;     // [T, n] float32: v_s, what the value function should learn
  at::Tensor advantage;  // [T, n]: r_s + discount * v_{s+1} - V(x_s), of the policy gradient
  at::Tensor rho;        // [T, n]: min(rho_bar, ratio), which the gradient is multiplied by
};

// V-trace (Espeholt et al., IMPALA, arXiv 1802.01561, equation 1), for rollouts that another policy
// made than the one that learns from them:
//   v_s = V(x_s) + sum over t >= s of discount^{t-s} (c_s ... c_{t-1}) rho_t delta_t
//   delta_t = r_t + discount * V(x_{t+1}) - V(x_t),  c_t = lambda * min(c_bar, ratio_t)
// Sums stop where an episode ends, and what follows has the values that generalized_advantages()
// takes; v_s is V(x_s) where a step is not valid. value: [T, n] float32, of the learning policy.
// log_ratio: [T, n] float32, the logarithm of its probability of the action over that of the policy
// that acted. Neither needs gradients.
VTrace vtrace(const Outcomes& outcomes, const at::Tensor& value, const at::Tensor& log_ratio,
              const VTraceOptions& options);

}  // namespace shoal
