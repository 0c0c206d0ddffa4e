#pragma once

#include <cstdint>

#include "shoal/core/host_device.h"

namespace shoal {

// Rewards, ends and values of a rollout of T steps of B environments, as in Samples. A column is an
// environment; cell t * B + b is its step t.
struct ValuedRollout {
  const float* reward = nullptr;           // [T, B]
  const bool* terminated = nullptr;        // [T, B]
  const bool* truncated = nullptr;         // [T, B]
  const bool* valid = nullptr;             // [T, B]
  const float* value = nullptr;            // [T, B], of rows 0..T-1
  const float* final_value = nullptr;      // [T, B]: of the final observation, where truncated
  const float* bootstrap_value = nullptr;  // [B], of row T
  std::int64_t T = 0, B = 0;
};

SHOAL_HOST_DEVICE inline bool is_over(const ValuedRollout& w, std::int64_t cell) {
  return w.terminated[cell] || w.truncated[cell];
}

// V(s_{t+1}) of a cell where the episode ended.
SHOAL_HOST_DEVICE inline float value_after_end(const ValuedRollout& w, std::int64_t cell) {
  return w.terminated[cell] ? 0 : w.final_value[cell];
}

}  // namespace shoal
