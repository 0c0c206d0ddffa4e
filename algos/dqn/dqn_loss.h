#pragma once

#include <ATen/core/Tensor.h>

namespace shoal {

// What N steps have to learn, each by itself; with gradients.
struct StepLosses {
  at::Tensor loss;   // [N]
  at::Tensor error;  // [N], not below 0 and without gradients: what a priority is made from
};

// Values [N] against those wanted [N]: half the squared error; beyond `huber_delta`, if that is
// above 0, the line that goes on from there. The error is |wanted - value|.
StepLosses value_losses(const at::Tensor& wanted, const at::Tensor& value, double huber_delta);

// Logits [N, atoms] of the fixed returns against the probabilities wanted [N, atoms]: the cross
// entropy. The error is the Kullback-Leibler divergence.
StepLosses categorical_losses(const at::Tensor& wanted, const at::Tensor& logits);

// The returns reward + discount * support, with their probabilities [N, atoms], as probabilities of
// the returns in `support` [atoms], which are evenly spaced: each goes to its two neighbours, the
// more the nearer; what is beyond the ends, to those (Bellemare et al., arXiv 1707.06887,
// algorithm 1). reward, discount: [N].
at::Tensor project(const at::Tensor& probability, const at::Tensor& reward,
                   const at::Tensor& discount, const at::Tensor& support);

// Quantiles [N, atoms] against equally likely returns wanted [N, M]: quantile regression, smoothed
// where the difference is below `huber_delta` (Dabney et al., arXiv 1710.10044, equation 10);
// summed over the quantiles, averaged over the returns. The error is the loss.
StepLosses quantile_losses(const at::Tensor& wanted, const at::Tensor& quantiles,
                           double huber_delta);

}  // namespace shoal
