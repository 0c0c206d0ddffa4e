#include "algos/pg/ppo_loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace shoal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Coefficients {
  double clip, value_clip, value, entropy;
};

PpoLoss loss_of_tensors(const Evaluation& now, const PpoTargets& then, const Coefficients& c) {
  const auto log_ratio = now.log_prob - then.log_prob;
  const auto ratio = log_ratio.exp();
  const auto clipped = ratio.clamp(1 - c.clip, 1 + c.clip);
  const auto policy = -at::min(ratio * then.advantage, clipped * then.advantage).mean();
  auto error = (now.value - then.target).square();
  if (c.value_clip > 0) {
    const auto near = then.value + (now.value - then.value).clamp(-c.value_clip, c.value_clip);
    error = at::max(error, (near - then.target).square());
  }
  const auto value = 0.5 * error.mean(), entropy = now.entropy.mean();
  // Always positive, and with less variance than -log_ratio (Schulman, "Approximating KL
  // divergence", 2020).
  const auto kl = (ratio - 1 - log_ratio).mean();
  const auto clip_fraction = (ratio - 1).abs().gt(c.clip).to(ratio.scalar_type()).mean();
  return {policy + c.value * value - c.entropy * entropy,
          at::stack({policy, value, entropy, kl, clip_fraction}).detach()};
}

// loss_of_tensors() in one loop. Where both branches are equal, the gradient is that of the
// unclipped one.
class Loop : public torch::autograd::Function<Loop> {
 public:
  static tensor_list forward(AutogradContext* context, const at::Tensor& log_prob,
                             const at::Tensor& entropy, const at::Tensor& value,
                             const PpoTargets& then, const Coefficients& c) {
    const auto n = log_prob.size(0);
    const auto share = 1 / static_cast<double>(n);
    const auto to_log_prob = at::empty_like(log_prob), to_value = at::empty_like(log_prob);
    const auto* old_log_prob = then.log_prob.const_data_ptr<float>();
    const auto* old_value = then.value.const_data_ptr<float>();
    const auto* advantages = then.advantage.const_data_ptr<float>();
    const auto* targets = then.target.const_data_ptr<float>();
    const auto *log_probs = log_prob.const_data_ptr<float>(),
               *entropies = entropy.const_data_ptr<float>(),
               *values = value.const_data_ptr<float>();
    std::array<double, 5> sums{};
    auto& [policy_sum, error_sum, entropy_sum, kl_sum, clipped_sum] = sums;
    for (std::int64_t i = 0; i < n; ++i) {
      const double log_ratio = log_probs[i] - old_log_prob[i], ratio = std::exp(log_ratio);
      const double gain = ratio * advantages[i];
      const double clipped_gain = std::clamp(ratio, 1 - c.clip, 1 + c.clip) * advantages[i];
      policy_sum -= std::min(gain, clipped_gain);
      to_log_prob.data_ptr<float>()[i] =
          static_cast<float>(gain > clipped_gain ? 0 : -gain * share);  // propagates NaN

      double off = values[i] - targets[i];
      bool moves = true;  // whether the error depends on the value
      if (c.value_clip > 0) {
        const double step = values[i] - old_value[i];
        const double near =
            old_value[i] + std::clamp(step, -c.value_clip, c.value_clip) - targets[i];
        if (!(near * near <= off * off)) off = near, moves = std::abs(step) <= c.value_clip;
      }
      error_sum += 0.5 * off * off;
      to_value.data_ptr<float>()[i] = static_cast<float>(moves ? c.value * off * share : 0);

      entropy_sum += entropies[i];
      kl_sum += ratio - 1 - log_ratio;
      clipped_sum += std::abs(ratio - 1) > c.clip ? 1 : 0;
    }
    const auto parts = at::empty({5}, log_prob.options());
    for (int k = 0; k < 5; ++k)
      parts.data_ptr<float>()[k] = static_cast<float>(sums[static_cast<std::size_t>(k)] * share);
    const auto total = (policy_sum + c.value * error_sum - c.entropy * entropy_sum) * share;
    context->save_for_backward(
        {to_log_prob, at::full_like(log_prob, -c.entropy * share), to_value});
    context->mark_non_differentiable({parts});
    // A sum beyond the range of float becomes infinite, which LossMeans reports.
    return {at::scalar_tensor(static_cast<float>(total), log_prob.options()), parts};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradient) {
    auto saved = context->get_saved_variables();
    const auto scale = gradient[0].item<float>();
    if (scale != 1)
      for (auto& g : saved) g = g * scale;
    return {saved[0], saved[1], saved[2], {}, {}};
  }
};

bool is_plain(const at::Tensor& t) {
  return t.is_cpu() && t.scalar_type() == at::kFloat && t.is_contiguous();
}

}  // namespace

PpoLoss ppo_loss(const Evaluation& now, const PpoTargets& then, const PpoOptions& options) {
  const Coefficients c{options.clip, options.value_clip, options.value_coef, options.entropy_coef};
  for (const auto& t : {now.log_prob, now.entropy, now.value, then.log_prob, then.value,
                        then.advantage, then.target})
    if (!is_plain(t)) return loss_of_tensors(now, then, c);
  auto out = Loop::apply(now.log_prob, now.entropy, now.value, then, c);
  return {out[0], out[1]};
}

}  // namespace shoal
