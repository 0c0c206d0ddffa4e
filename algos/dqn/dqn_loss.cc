#include "algos/dqn/dqn_loss.h"

#include <ATen/ATen.h>

#include "src/compute/accelerator.h"

namespace shoal {
namespace {

// Huber loss of e >= 0: 0.5 e^2, and h (e - h / 2) where e > h.
at::Tensor smoothed(const at::Tensor& size, double huber_delta) {
  const auto cut = huber_delta > 0 ? size.clamp_max(huber_delta) : size;
  return cut * (size - 0.5 * cut);
}

}  // namespace

StepLosses value_losses(const at::Tensor& wanted, const at::Tensor& value, double huber_delta) {
  const auto error = (wanted - value).abs();
  return {.loss = smoothed(error, huber_delta), .error = error.detach()};
}

StepLosses categorical_losses(const at::Tensor& wanted, const at::Tensor& logits) {
  const auto loss = -(wanted * logits.log_softmax(-1)).sum(-1);
  const auto entropy = -at::xlogy(wanted, wanted).sum(-1);
  return {.loss = loss, .error = (loss.detach() - entropy).clamp_min(0)};
}

at::Tensor project(const at::Tensor& probability, const at::Tensor& reward,
                   const at::Tensor& discount, const at::Tensor& support) {
  const auto atoms = support.size(0);
  if (const auto* on = accelerator(support.device())) {
    const auto from = probability.contiguous(), r = reward.contiguous(), d = discount.contiguous();
    auto out = at::empty_like(from);
    const c10::DeviceGuard guard(out.device());
    require_started("project", on->kernels().project({.probability = from.const_data_ptr<float>(),
                                                      .reward = r.const_data_ptr<float>(),
                                                      .discount = d.const_data_ptr<float>(),
                                                      .support = support.const_data_ptr<float>(),
                                                      .out = out.data_ptr<float>(),
                                                      .N = from.size(0),
                                                      .atoms = atoms},
                                                     on->stream()));
    return out;
  }
  const auto in_double = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const auto z = in_double(support), p = in_double(probability), gamma = in_double(discount);
  const auto top = static_cast<double>(atoms - 1);
  const auto low = z[0];
  const auto offset = (in_double(reward) + (gamma - 1) * low) * top / (z[atoms - 1] - low);
  // Positions of the returns in `support`, in units of its spacing.
  const auto steps = at::arange(atoms, z.options());
  const auto place = (offset.unsqueeze(1) + gamma.unsqueeze(1) * steps).clamp(0, top);
  const auto below = place.floor().clamp_max(top - 1).nan_to_num(top - 1);
  const auto upper = place - below;
  const auto index = below.to(at::kLong);
  auto out = at::zeros_like(p);
  out.scatter_add_(1, index, p * (1 - upper));
  out.scatter_add_(1, index + 1, p * upper);
  return out.to(probability.scalar_type());
}

StepLosses quantile_losses(const at::Tensor& wanted, const at::Tensor& quantiles,
                           double huber_delta) {
  const auto atoms = quantiles.size(1);
  const auto share =
      ((at::arange(atoms, quantiles.options()) + 0.5) / static_cast<double>(atoms)).unsqueeze(1);
  const auto difference = wanted.unsqueeze(1) - quantiles.unsqueeze(2);  // [N, atoms, M]
  const auto size = difference.abs();
  const auto smooth = huber_delta > 0 ? smoothed(size, huber_delta) / huber_delta : size;
  const auto weight = (share - difference.detach().lt(0).to(share.scalar_type())).abs();
  const auto loss = (weight * smooth).mean(2).sum(1);
  return {.loss = loss, .error = loss.detach()};
}

}  // namespace shoal
