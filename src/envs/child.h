#pragma once

#include <functional>

#include "shoal/ipc/worker_group.h"

namespace shoal {

// Runs `act` in a forked process and returns when that has done it. Throws WorkerError if it
// throws, crashes or hangs. meanwhile: called about ten times a second, in this process.
void run_in_child(const std::function<void(WorkerStatus)>& act, const WorkerGroupOptions& limits,
                  const std::function<void()>& meanwhile = {});

}  // namespace shoal
