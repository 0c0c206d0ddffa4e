#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "shoal/algos/algo.h"

namespace shoal {

// Writes the epsilons of the next window, one or one for each environment, as the options
// epsilon_start, epsilon_end, epsilon_share and epsilon_last of an algorithm say: see DqnOptions.
template <class Options>
void set_epsilons(at::Tensor epsilon, const Options& o, const Progress& progress, bool learning) {
  constexpr double kLeast = 1e-9;  // 0 has no logarithm
  if (!learning) {
    epsilon.fill_(1);
    return;
  }
  const double done = std::min(1.0, (1 - progress.remaining()) / o.epsilon_share);
  const double first = o.epsilon_start + (o.epsilon_end - o.epsilon_start) * done;
  const double last = o.epsilon_start + (o.epsilon_last - o.epsilon_start) * done;
  if (epsilon.size(0) == 1)
    epsilon.fill_(first);
  else
    epsilon.copy_(at::logspace(std::log10(std::max(first, kLeast)),
                               std::log10(std::max(last, kLeast)), epsilon.size(0)));
}

}  // namespace shoal
