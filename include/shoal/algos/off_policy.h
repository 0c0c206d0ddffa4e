#pragma once

#include "shoal/algos/algo.h"
#include "shoal/replays/replay.h"

namespace shoal {

// Learns from steps drawn out of a replay, whoever has made them. Returns numbers; never logs.
class OffPolicyAlgo {
 public:
  virtual ~OffPolicyAlgo() = default;
  // That many updates, each from a batch of its own; the mean of their numbers. The replay must
  // hold a step already.
  virtual Metrics update(Replay& replay, const Progress& progress, int updates) = 0;
  // What a checkpoint needs besides the agent's parameters. The tensors are the algo's own.
  virtual NamedTensors state() = 0;
};

}  // namespace shoal
