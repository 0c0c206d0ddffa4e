#pragma once

#include <functional>

namespace shoal {

// Runs `body(rank)` in a process for each of so many ranks, forked now, and waits for them all;
// what rank 0's body returned. They are forked from the main thread, before CUDA has a context
// (Error), and die with this process.
//
// If one of them throws or dies, all others are killed at once, with the workers they have, and the
// text of the first is thrown here: as Error, if it was one, as RankError otherwise. Who is only
// too late is found by those that wait for it (RankExchange).
//
// SIGINT, SIGTERM and SIGHUP go to rank 0, which tells the others where they can stop together; at
// first all of them ignore these. If a rank ends with status 128 + the signal, all are killed, and
// that status is the result.
int run_ranks(int ranks, const std::function<int(int rank)>& body);

}  // namespace shoal
