#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/data/samples.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

// The status that a rank sends to the others after a rollout.
struct RankStatus {
  std::int64_t steps = 0;  // used for learning
  int signal = 0;          // signal that asked the rank to stop; 0: none
  bool saves = false;      // a checkpoint is due
  std::vector<Episode> episodes = {};
  std::string failure = {};  // error message of a rank that fails
};

// Combines the status of all ranks, each of which has `envs` environments: the sum of the steps,
// any rank's signal and failure, `saves` of rank 0, and all episodes, with global environment
// indices, in the order in which they ended (Episode::t), as in one process.
RankStatus exchange_status(ProcessGroup& ranks, const RankStatus& own, std::int64_t envs);

}  // namespace shoal
