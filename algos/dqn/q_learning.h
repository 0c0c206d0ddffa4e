#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "shoal/algos/algo.h"
#include "shoal/data/samples.h"

// Shared by DQN and R2D1.
namespace shoal {

// Writes the epsilons of the next rollout, one or one for each environment, from the options
// epsilon_start, epsilon_end, exploration_fraction and epsilon_last of an algorithm: see
// DqnOptions.
template <class Options>
void set_epsilons(at::Tensor epsilon, const Options& o, const Progress& progress, bool learning) {
  constexpr double kLeast = 1e-9;  // 0 has no logarithm
  if (!learning) {
    epsilon.fill_(1);
    return;
  }
  const double done = std::min(1.0, (1 - progress.remaining()) / o.exploration_fraction);
  const double first = o.epsilon_start + (o.epsilon_end - o.epsilon_start) * done;
  const double last = o.epsilon_start + (o.epsilon_last - o.epsilon_start) * done;
  if (epsilon.size(0) == 1)
    epsilon.fill_(first);
  else
    epsilon.copy_(at::logspace(std::log10(std::max(first, kLeast)),
                               std::log10(std::max(last, kLeast)), epsilon.size(0)));
}

// values: [N, actions]. Sets those of illegal actions to -infinity.
inline at::Tensor of_legal(const at::Tensor& values, const at::Tensor& legal) {
  return values.masked_fill(legal.logical_not(), -std::numeric_limits<float>::infinity());
}

}  // namespace shoal
