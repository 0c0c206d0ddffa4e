#pragma once

#include <cstdint>

#include "shoal/core/host_device.h"

namespace shoal {

struct PhiloxBlock {
  std::uint32_t word[4];
};

// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3", SC 2011). The same key and counter give the same numbers in every process, on every
// machine and device, in any order of calls.
SHOAL_HOST_DEVICE constexpr PhiloxBlock philox_block(std::uint64_t key, std::uint64_t counter_low,
                                                     std::uint64_t counter_high) {
  constexpr int kRounds = 10;
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53U, kMultiplier1 = 0xCD9E8D57U;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9U, kWeyl1 = 0xBB67AE85U;
  auto x0 = static_cast<std::uint32_t>(counter_low);
  auto x1 = static_cast<std::uint32_t>(counter_low >> 32);
  auto x2 = static_cast<std::uint32_t>(counter_high);
  auto x3 = static_cast<std::uint32_t>(counter_high >> 32);
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const auto product0 = std::uint64_t{kMultiplier0} * x0;
    const auto product1 = std::uint64_t{kMultiplier1} * x2;
    x0 = static_cast<std::uint32_t>(product1 >> 32) ^ x1 ^ key0;
    x1 = static_cast<std::uint32_t>(product1);
    x2 = static_cast<std::uint32_t>(product0 >> 32) ^ x3 ^ key1;
    x3 = static_cast<std::uint32_t>(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return {{x0, x1, x2, x3}};
}

// Uniform in [0, 1) with 24 bits, exactly representable in float32.
SHOAL_HOST_DEVICE constexpr float to_unit_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24F;
}

}  // namespace shoal
