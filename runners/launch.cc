#include "shoal/runners/launch.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdlib>

namespace shoal {

namespace {

// Tensors of a step are freed and allocated again at once. By default malloc returns the larger
// ones to the system, and each new allocation takes page faults for zeroed pages.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

void launch(char** argv, int threads) {
  keep_freed_memory();
  if (threads == 1) return;
  // Either variable set: the user's choice, or the program has already re-executed itself.
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "20000", 1) != 0) return;
  execv("/proc/self/exe", argv);
  // Without /proc, continue with the default, which is a little slower.
}

}  // namespace shoal
