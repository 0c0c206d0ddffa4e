#pragma once

#include <cmath>
#include <cstdint>

#include "shoal/core/host_device.h"
#include "src/compute/valued_rollout.h"

namespace shoal {

struct VTraceColumns {
  ValuedRollout rollout;
  const float* log_ratio = nullptr;  // [T, B], learning policy over behaviour policy
  float* target = nullptr;           // [T, B]
  float* advantage = nullptr;        // [T, B]
  float* rho = nullptr;              // [T, B]
  double discount = 0.99, lambda = 1, rho_bar = 1, c_bar = 1;  // as in VTraceOptions
};

// V-trace (Espeholt et al., arXiv 1802.01561, equation 1) of environment b, as in vtrace(),
// backwards in time (remark 1):
//   v_s = V(x_s) + rho_s (r_s + discount * V(x_{s+1}) - V(x_s))
//         + discount * c_s (v_{s+1} - V(x_{s+1})).
SHOAL_HOST_DEVICE inline void vtrace_column(const VTraceColumns& in, std::int64_t b) {
  const auto& w = in.rollout;
  const auto discount = static_cast<float>(in.discount), lambda = static_cast<float>(in.lambda);
  const auto rho_bar = static_cast<float>(in.rho_bar), c_bar = static_cast<float>(in.c_bar);
  float next_value = w.bootstrap_value[b], next_target = next_value;
  for (auto cell = (w.T - 1) * w.B + b; cell >= 0; cell -= w.B) {
    if (is_over(w, cell)) next_value = next_target = value_after_end(w, cell);
    const float value = w.value[cell], reward = w.reward[cell];
    const float ratio = std::exp(in.log_ratio[cell]);
    // A ratio of NaN stays NaN.
    const float rho = ratio > rho_bar ? rho_bar : ratio, c = ratio > c_bar ? c_bar : ratio;
    float target = value + rho * (reward + discount * next_value - value) +
                   discount * lambda * c * (next_target - next_value);
    if (!w.valid[cell]) target = value;
    in.rho[cell] = rho;
    in.advantage[cell] = reward + discount * next_target - value;
    in.target[cell] = target;
    next_value = value;
    next_target = target;
  }
}

}  // namespace shoal
