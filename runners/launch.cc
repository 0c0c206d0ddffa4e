#include "shoal/runners/launch.h"

#include <unistd.h>

#include <cstdlib>

namespace shoal {

void launch(char** argv, int threads) {
  if (threads == 1) return;
  // Either one set means: the user's choice, or started again already.
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "20000", 1) != 0) return;
  execv("/proc/self/exe", argv);
  // No /proc: go on, a little slower.
}

}  // namespace shoal
