#pragma once

#include <ATen/core/Tensor.h>

#include "shoal/agents/agent.h"
#include "shoal/algos/ppo.h"

namespace shoal {

// The recorded tensors and targets of a minibatch; all [N] float32.
struct PpoTargets {
  at::Tensor log_prob, value;  // of the behaviour policy
  at::Tensor advantage;        // already normalized
  at::Tensor target;           // of the value
};

struct PpoLoss {
  at::Tensor total;  // scalar, with gradients
  // [5], without gradients: policy loss, value loss, entropy, KL divergence from the behaviour
  // policy, fraction of clipped ratios.
  at::Tensor parts;
};

// -L^{CLIP+VF+S} of Schulman et al., "Proximal Policy Optimization Algorithms" (arXiv 1707.06347),
// eq. 9, with means over the minibatch as expectations. On the CPU one loop also computes the
// gradients.
PpoLoss ppo_loss(const Evaluation& now, const PpoTargets& then, const PpoOptions& options);

}  // namespace shoal
