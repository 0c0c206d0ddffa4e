#pragma once

#include <ATen/core/Tensor.h>

namespace shoal {

struct CategoricalEvaluation {
  at::Tensor log_prob, entropy;  // [N], with gradients with respect to the logits
};

// Log-probability and entropy of softmax(logits [N, A]) for action [N] int64. For small policies on
// the CPU the overhead of tensor operations dominates, so there the forward and the backward pass
// are one loop each.
CategoricalEvaluation evaluate_categorical(const at::Tensor& logits, const at::Tensor& action);

}  // namespace shoal
