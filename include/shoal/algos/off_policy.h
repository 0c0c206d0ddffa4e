#pragma once

#include "shoal/algos/algo.h"

namespace shoal {

// Learns from the replay that its factory was given; the steps in it may be of any policy. Returns
// metrics; never logs.
class OffPolicyAlgo : public Algo {
 public:
  // Sets the agent's exploration for the next rollout. learning: false before learning_starts, when
  // actions are random.
  virtual void explore(const Progress& progress, bool learning) = 0;
  // Makes so many updates, each with its own batch, and returns the mean of their metrics. The
  // replay must not be empty.
  virtual Metrics update(const Progress& progress, int updates) = 0;
};

}  // namespace shoal
