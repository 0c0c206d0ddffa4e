#include "algos/adam.h"

#include <array>
#include <cmath>

namespace shoal {

namespace {

// In several sums, so that the compiler may use vectors.
double sum_of_squares(const float* x, std::int64_t n) {
  constexpr std::int64_t kSums = 16;
  std::array<float, kSums> sums{};
  double total = 0;
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::size_t k = 0; k < kSums; ++k) {
      const float value = x[i + static_cast<std::int64_t>(k)];
      sums[k] += value * value;
    }
  }
  for (const float sum : sums) total += sum;
  for (; i < n; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
}

at::Tensor clip_in_loops(std::vector<at::Tensor>& gradients, double limit) {
  double total = 0;
  for (const auto& g : gradients) total += sum_of_squares(g.const_data_ptr<float>(), g.numel());
  const double norm = std::sqrt(total);
  if (limit > 0 && norm + 1e-6 > limit) {
    const auto scale = static_cast<float>(limit / (norm + 1e-6));
    for (auto& g : gradients) {
      auto* values = g.data_ptr<float>();
      for (std::int64_t i = 0; i < g.numel(); ++i) values[i] *= scale;
    }
  }
  return at::scalar_tensor(norm, gradients.front().options());
}

}  // namespace

at::Tensor clip_gradients(std::vector<at::Tensor>& gradients, double limit) {
  torch::NoGradGuard no_grad;
  bool plain = true;
  for (const auto& g : gradients)
    plain &= g.is_cpu() && g.scalar_type() == at::kFloat && g.is_non_overlapping_and_dense();
  if (plain) return clip_in_loops(gradients, limit);
  const auto norm = at::stack(at::_foreach_norm(gradients)).norm();
  if (limit > 0) at::_foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp_max(1));
  return norm;
}

}  // namespace shoal
