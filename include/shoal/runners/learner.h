#pragma once

#include <cstdint>
#include <memory>

#include "shoal/algos/algo_spec.h"
#include "shoal/algos/off_policy.h"
#include "shoal/replays/replay.h"

namespace shoal {

// An algorithm and what it learns from.
struct Learner {
  std::unique_ptr<Replay> replay;
  std::unique_ptr<OffPolicyAlgo> algo;
  std::int64_t batch;  // steps that one update draws
};

}  // namespace shoal
