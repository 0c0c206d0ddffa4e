#pragma once

#include <cstdint>

#include "shoal/core/host_device.h"
#include "shoal/core/philox.h"

namespace shoal {

// A uniform random number in [0, 1) for the action of environment `env` (below 2^40) at a tick. It
// depends only on the seed, the environment, the tick and its number, and has the same bits on the
// CPU and the GPU.
SHOAL_HOST_DEVICE inline float noise_uniform(std::uint64_t seed, std::int64_t env,
                                             std::int64_t tick, std::int64_t number) {
  constexpr int kEnvBits = 40;
  const auto block = static_cast<std::uint64_t>(number / 4) << kEnvBits;
  return to_unit_float(
      philox_block(seed, static_cast<std::uint64_t>(tick), block | static_cast<std::uint64_t>(env))
          .word[number % 4]);
}

// A matrix of these numbers, for N rows.
struct NoiseRows {
  std::uint64_t seed = 0;
  const std::int64_t* env_tick = nullptr;  // [N, 2]: environment and tick of row i
  std::int64_t first_number = 0;           // column j has number first_number + j
  float* out = nullptr;                    // [N, numbers]
  std::int64_t N = 0, numbers = 0;
};

SHOAL_HOST_DEVICE inline void noise_cell(const NoiseRows& in, std::int64_t row,
                                         std::int64_t column) {
  in.out[row * in.numbers + column] = noise_uniform(
      in.seed, in.env_tick[2 * row], in.env_tick[2 * row + 1], in.first_number + column);
}

}  // namespace shoal
