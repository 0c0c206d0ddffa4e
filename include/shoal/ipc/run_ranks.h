#pragma once

#include <functional>

namespace shoal {

// Forks a process for each rank, runs `body(rank)` in it, waits for all, and returns the result of
// rank 0's body. Call it from the main thread, before CUDA has a context (otherwise Error). The
// processes die with this one.
//
// If a rank throws or dies, all others are killed at once, with their workers, and the first rank's
// message is thrown here: as Error if it was an Error, otherwise as RankError. A rank that is only
// late is detected by the ranks that wait for it (RankExchange); one that runs 60 s longer than the
// first to end is killed (RankError).
//
// SIGINT, SIGTERM and SIGHUP are forwarded to rank 0, which tells the others at which step to stop;
// the others ignore them. Until its body sets handlers, a signal ends rank 0. If a rank exits with
// status 128 + the signal, all are killed, and that status is the result.
int run_ranks(int ranks, const std::function<int(int rank)>& body);

}  // namespace shoal
