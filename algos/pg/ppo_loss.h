#pragma once

#include <ATen/core/Tensor.h>

#include "shoal/agents/agent.h"
#include "shoal/algos/ppo.h"

namespace shoal {

// What a minibatch brings from its rollout; all [N] float32.
struct PpoTargets {
  at::Tensor log_prob, value;  // of the policy that acted
  at::Tensor advantage;        // used as it is
  at::Tensor target;           // of the value
};

struct PpoLoss {
  at::Tensor total;  // scalar, with gradients
  // [5], without: policy loss, value loss, entropy, KL divergence from the policy that acted, share
  // of clipped ratios.
  at::Tensor parts;
};

// -L^{CLIP+VF+S} of Schulman et al., "Proximal Policy Optimization Algorithms" (arXiv 1707.06347),
// eq. 9, its expectations taken as means over the minibatch. On the CPU it is one loop that also
// finds the gradients.
PpoLoss ppo_loss(const Evaluation& now, const PpoTargets& then, const PpoOptions& options);

}  // namespace shoal
