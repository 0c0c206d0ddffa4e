#pragma once

#include <cmath>
#include <cstdint>

#include "shoal/core/host_device.h"
#include "src/compute/valued_rollout.h"

namespace shoal {

struct Gae {
  ValuedRollout rollout;
  float* advantage = nullptr;  // [T, B]
  float* target = nullptr;     // [T, B]: advantage + value
  double discount = 0.99, lambda = 0.95;
};

// Generalized advantage estimation (Schulman et al., arXiv 1506.02438, equation 16) of environment
// b, as in generalized_advantages(), backwards in time:
//   delta_t = r_t + discount * V(s_{t+1}) - V(s_t),  A_t = delta_t + discount * lambda * A_{t+1}.
SHOAL_HOST_DEVICE inline void gae_column(const Gae& in, std::int64_t b) {
  const auto& w = in.rollout;
  const auto discount = static_cast<float>(in.discount);
  const auto decay = static_cast<float>(in.discount * in.lambda);
  float next_value = w.bootstrap_value[b], running = 0;
  for (auto cell = (w.T - 1) * w.B + b; cell >= 0; cell -= w.B) {
    const bool over = is_over(w, cell);
    if (over) next_value = value_after_end(w, cell);
    const float value = w.value[cell];
    // An invalid step has no TD error; the step before it bootstraps from its value.
    const float delta = w.valid[cell] ? w.reward[cell] + discount * next_value - value : 0;
    running = over ? delta : std::fma(decay, running, delta);
    in.advantage[cell] = running;
    in.target[cell] = running + value;
    next_value = value;
  }
}

}  // namespace shoal
