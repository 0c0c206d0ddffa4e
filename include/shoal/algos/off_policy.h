#pragma once

#include "shoal/algos/algo.h"

namespace shoal {

// Learns from a replay, which it was given when it was made, whoever made the steps in there.
// Returns numbers; never logs.
class OffPolicyAlgo : public Algo {
 public:
  // Sets how the agent explores in the next rollout. learning: it has begun to learn; until then it
  // acts at random.
  virtual void explore(const Progress& progress, bool learning) = 0;
  // That many updates, each from a batch of its own; the mean of their numbers. The replay must
  // hold something already.
  virtual Metrics update(const Progress& progress, int updates) = 0;
};

}  // namespace shoal
