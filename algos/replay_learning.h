#pragma once

#include "shoal/algos/algo.h"
#include "shoal/core/error.h"

namespace shoal {

// Added to an error to make a priority: what has been learned perfectly is still drawn at times.
inline constexpr double kLeastPriority = 1e-6;

inline void require_updates(int updates) {
  require(updates >= 1, "{} updates are asked for; at least 1 is needed", updates);
}

// What learning rates are multiplied by, as the option anneal_learning_rate of an algorithm says.
template <class Options>
double pace_at(const Options& o, const Progress& progress) {
  return o.anneal_learning_rate ? progress.remaining() : 1;
}

// How far importance weights make up for priorities, as the options beta_start and beta_end of an
// algorithm say.
template <class Options>
double beta_at(const Options& o, const Progress& progress) {
  return o.beta_end + (o.beta_start - o.beta_end) * progress.remaining();
}

}  // namespace shoal
