#include "shoal/runners/launch.h"

#include <unistd.h>

#include <cstdlib>

namespace shoal {

void launch(char** argv) {
  constexpr const char* kDone = "SHOAL_LAUNCHED";
  const bool done = std::getenv(kDone) != nullptr;
  if (done || std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr)
    return;
  setenv("GOMP_SPINCOUNT", "20000", 1);
  setenv(kDone, "1", 1);  // the new program must not start itself again, whatever it finds
  execv("/proc/self/exe", argv);
  // No /proc: go on, a little slower.
}

}  // namespace shoal
