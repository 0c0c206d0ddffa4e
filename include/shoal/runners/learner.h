#pragma once

#include <cstdint>
#include <memory>

#include "shoal/algos/algo_spec.h"
#include "shoal/algos/off_policy.h"
#include "shoal/replays/replay.h"

namespace shoal {

// An off-policy algorithm and its replay.
struct Learner {
  std::unique_ptr<Replay> replay;
  std::unique_ptr<OffPolicyAlgo> algo;
  std::int64_t batch;  // steps drawn per update
};

}  // namespace shoal
