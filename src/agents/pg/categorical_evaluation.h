#pragma once

#include <ATen/core/Tensor.h>

namespace shoal {

struct CategoricalEvaluation {
  at::Tensor log_prob, entropy;  // [N], with gradients with respect to the logits
};

// Of softmax(logits [N, A]) and action [N] int64. Small policies on the CPU spend their learning
// time on the overhead of tensor operations, not on arithmetic: there, both numbers and their
// gradients are one loop each.
CategoricalEvaluation evaluate_categorical(const at::Tensor& logits, const at::Tensor& action);

}  // namespace shoal
