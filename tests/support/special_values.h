#pragma once

#include <ATen/ATen.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace shoal::testing {

// Numbers that custom arithmetic easily gets wrong: NaNs of various bits, infinities, the smallest
// numbers, zeros of both signs; and two ordinary numbers.
inline at::Tensor special_values() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> all;
  for (const std::uint32_t nan : {0x7FC00000U, 0xFFC00000U, 0x7FC00001U, 0xFFFFFFFFU, 0x7FD55555U})
    all.push_back(std::bit_cast<float>(nan));
  for (const float x : {kInfinity, std::numeric_limits<float>::denorm_min(), 1e-40F,
                        std::numeric_limits<float>::min(), 0.0F, 0.75F})
    for (const float sign : {1.0F, -1.0F}) all.push_back(sign * x);
  return at::tensor(all);
}

// Whether NaNs and infinities are equal, and all other numbers are within the tolerance.
inline bool alike(const at::Tensor& found, const at::Tensor& wanted, double tolerance) {
  return at::allclose(found.to(at::kDouble), wanted.to(at::kDouble), tolerance, tolerance,
                      /*equal_nan=*/true);
}

}  // namespace shoal::testing
