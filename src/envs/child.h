#pragma once

#include <functional>

#include "shoal/ipc/worker_group.h"

namespace shoal {

// Runs `act` in a forked process and waits for it. Throws WorkerError if it throws, crashes or
// hangs, and Interrupted if this process is asked to stop. meanwhile: called in this process about
// ten times a second.
void run_in_child(const std::function<void(WorkerStatus)>& act, const WorkerGroupOptions& limits,
                  const std::function<void()>& meanwhile = {});

}  // namespace shoal
