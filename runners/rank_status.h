#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/data/samples.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

// What a rank tells the others after a rollout.
struct RankStatus {
  std::int64_t steps = 0;  // that were learned from, or will be
  int signal = 0;          // that asked it to stop
  bool saves = false;      // it is time for a checkpoint
  std::vector<Episode> episodes = {};
  std::string failure = {};  // its error, if it ends here
};

// The news of all ranks, each of which has so many environments: the sum of their steps, a signal
// and a failure that any of them has, rank 0's clock, and all episodes in the order of the ranks,
// their environments counted through.
RankStatus exchange_status(ProcessGroup& ranks, const RankStatus& own, std::int64_t envs);

}  // namespace shoal
