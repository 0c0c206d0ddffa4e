#include "shoal/runners/launch.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdlib>

namespace shoal {

namespace {

// Tensors of a step are freed and allocated again at once. Left alone, malloc returns the larger
// ones to the system each time, and the kernel hands out zeroed pages anew, page fault by page
// fault.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

void launch(char** argv, int threads) {
  keep_freed_memory();
  if (threads == 1) return;
  // Either one set means: the user's choice, or started again already.
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "20000", 1) != 0) return;
  execv("/proc/self/exe", argv);
  // No /proc: go on, a little slower.
}

}  // namespace shoal
