#pragma once

#include <cstdint>
#include <memory>

#include "shoal/algos/off_policy.h"
#include "shoal/replays/replay.h"

namespace shoal {

struct OffPolicyOptions {
  std::int64_t learning_starts = 10'000;  // steps that are taken at random first
  // Steps that are drawn from the replay for each one that is taken after those: rlpyt's replay
  // ratio. With batches of as many there is an update for every step.
  double replay_ratio = 8;
};

// An algorithm and what it learns from.
struct Learner {
  std::unique_ptr<Replay> replay;
  std::unique_ptr<OffPolicyAlgo> algo;
  std::int64_t batch;  // steps that one update draws
};

}  // namespace shoal
