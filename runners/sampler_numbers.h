#pragma once

#include "shoal/algos/algo.h"
#include "shoal/samplers/async_sampler.h"

namespace shoal {

// What an asynchronous sampler adds to the numbers of a row: batches by which the rollout's policy
// lay behind, rollouts dropped so far for being too old, and workers that were started anew.
inline void add_numbers(const Sampler& sampler, Metrics& metrics) {
  const auto* async = dynamic_cast<const AsyncSampler*>(&sampler);
  if (async == nullptr) return;
  metrics.emplace_back("policy_lag", async->versions_behind());
  metrics.emplace_back("dropped_rollouts", async->counts().dropped);
  metrics.emplace_back("restarts", async->restarts());
}

}  // namespace shoal
