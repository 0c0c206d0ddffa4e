#pragma once

#include <cstdint>

#include "shoal/core/host_device.h"
#include "src/compute/valued_rollout.h"

namespace shoal {

struct NStep {
  ValuedRollout rollout;          // values are needed only with `target`
  float* reward = nullptr;        // [T, B]: r_t + gamma r_{t+1} + ... + gamma^{k-1} r_{t+k-1}
  float* discount = nullptr;      // [T, B]: gamma^k; 0 if the last of these steps terminated
  std::int32_t* steps = nullptr;  // [T, B]: k
  // [T, B], or nullptr: the return, reward + discount * value of the following observation; at an
  // invalid step the value of its own observation.
  float* target = nullptr;
  double gamma = 0.99;
  std::int64_t n = 1;  // at least 1
};

// n-step returns (Sutton and Barto, Reinforcement Learning, 2nd edition, equation 7.1) of step t of
// environment b. They are shorter, k < n, at the end of the episode, before an invalid step and at
// the end of the rollout; an invalid step has none. Rewards are summed first to last, as in a
// StepReplay, so that sums are bitwise equal: a scan over time would have to subtract rewards
// again.
SHOAL_HOST_DEVICE inline void n_step_cell(const NStep& in, std::int64_t t, std::int64_t b) {
  const auto& w = in.rollout;
  const auto gamma = static_cast<float>(in.gamma);
  const auto first = t * w.B + b, end = (t + in.n < w.T ? t + in.n : w.T) * w.B + b;
  float sum = 0, power = 1;
  std::int32_t k = 0;
  bool over = false;
  auto cell = first;
  for (; cell < end && w.valid[cell] && !over; cell += w.B) {
    sum += power * w.reward[cell];
    power *= gamma;
    over = is_over(w, cell);
    ++k;
  }
  const auto last = cell - w.B;
  in.reward[first] = sum;
  in.steps[first] = k;
  in.discount[first] = k == 0 || (over && w.terminated[last]) ? 0 : power;
  if (in.target == nullptr) return;
  if (k == 0)
    in.target[first] = w.value[first];
  else if (over)
    in.target[first] = sum + in.discount[first] * value_after_end(w, last);
  else
    in.target[first] = sum + power * (cell < w.T * w.B ? w.value[cell] : w.bootstrap_value[b]);
}

}  // namespace shoal
