#pragma once

namespace shoal {

// Cleanup of processes that environments start and that would outlive their worker. When a process
// ends, Linux reparents its children, so the descendants of each worker carry a mark: in a forked
// process a mapping with the mark's name, in an executed program an environment variable.

// Starts the reaper, a process that kills the remaining descendants of this process's workers when
// this process ends. What this process starts itself, other than workers, may outlive it. Call it
// before forking workers; later calls do nothing.
void start_reaper();

// Call it in a worker before it starts anything.
void mark_worker();

// Kills the descendants of workers that have ended; those of a living worker, daemons included, are
// spared. Reads /proc/PID of every process of this user.
void kill_orphans();

}  // namespace shoal
