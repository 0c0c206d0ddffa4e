#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "shoal/sync/ranks.h"
#include "src/sync/sockets.h"

namespace shoal {

// What a process knows once all have met.
struct Met {
  Endpoint next;            // where to find the next one of the ring
  std::uint64_t token = 0;  // of this ring
};

// All processes of a job meet at its first one: each tells where it listens (any port, on
// `listener`), and when all have, each is told of the next. Throws RankError with who does not
// come, Error if there is no place to meet at.
//
// A c10d::TCPStore says where the first one is. What is found there may be of processes that are no
// more, as a launcher's store outlives those it starts again: whoever finds nobody looks again.
Met meet(const TcpRanksOptions& options, const Socket& listener);

}  // namespace shoal
