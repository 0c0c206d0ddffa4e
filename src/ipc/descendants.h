#pragma once

namespace shoal {

// Processes that environments start, and that would outlive their worker. Linux forgets whose child
// a process was when its parent ends, so the descendants of each worker carry a mark: a forked
// process has a mapping with the mark's name, an executed program an environment variable.

// Starts the reaper: a process that kills all descendants of this one that are left when this one
// ends. Called before a worker is forked; later calls do nothing.
void start_reaper();

// In a worker, before it starts anything.
void mark_worker();

// Kills the descendants of workers that have ended. Those of a living worker are left alone,
// daemons too. Reads /proc/PID of every process of this user.
void kill_orphans();

}  // namespace shoal
