#pragma once

namespace shoal {

// Descendants of this process that would outlive their worker: environments have started them. They
// carry a mark, because Linux forgets whose child a process was when its parent ends. A forked
// process has a mapping with the mark's name, an executed program an environment variable.

// Sets the mark, and starts the guard: a process that kills all descendants that are left when this
// process ends. Called before a worker is forked; later calls do nothing.
void mark_descendants();

// Kills the marked processes whose parents have ended. Reads /proc/PID/stat of every process.
void kill_orphans();

}  // namespace shoal
