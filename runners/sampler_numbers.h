#pragma once

#include "shoal/algos/algo.h"
#include "shoal/samplers/async_sampler.h"

namespace shoal {

// Adds the columns of an asynchronous sampler: policy lag of the rollout in updates, number of
// rollouts dropped as stale so far, and number of workers restarted.
inline void add_numbers(const Sampler& sampler, Metrics& metrics) {
  const auto* async = dynamic_cast<const AsyncSampler*>(&sampler);
  if (async == nullptr) return;
  metrics.emplace_back("policy_lag", async->versions_behind());
  metrics.emplace_back("dropped_rollouts", async->counts().dropped);
  metrics.emplace_back("restarts", async->restarts());
}

}  // namespace shoal
