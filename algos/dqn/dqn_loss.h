#pragma once

#include <ATen/core/Tensor.h>

namespace shoal {

// The losses of N steps.
struct StepLosses {
  at::Tensor loss;   // [N], with gradients
  at::Tensor error;  // [N], non-negative, without gradients: the source of priorities
};

// Values [N] against targets `wanted` [N]: half the squared error, or, if `huber_delta` is above 0,
// the Huber loss. The error is |wanted - value|.
StepLosses value_losses(const at::Tensor& wanted, const at::Tensor& value, double huber_delta);

// Logits [N, atoms] of the fixed returns against target probabilities `wanted` [N, atoms]: the
// cross entropy. The error is the Kullback-Leibler divergence.
StepLosses categorical_losses(const at::Tensor& wanted, const at::Tensor& logits);

// Projects the returns reward + discount * support, with probabilities [N, atoms], onto the evenly
// spaced returns in `support` [atoms]: each probability is split between the two nearest returns by
// linear interpolation; returns beyond the ends are clipped (Bellemare et al., arXiv 1707.06887,
// algorithm 1). reward, discount: [N].
at::Tensor project(const at::Tensor& probability, const at::Tensor& reward,
                   const at::Tensor& discount, const at::Tensor& support);

// Quantiles [N, atoms] against equally likely target returns `wanted` [N, M]: quantile Huber
// regression with `huber_delta` (Dabney et al., arXiv 1710.10044, equation 10), summed over the
// quantiles, averaged over the returns. The error is the loss.
StepLosses quantile_losses(const at::Tensor& wanted, const at::Tensor& quantiles,
                           double huber_delta);

}  // namespace shoal
