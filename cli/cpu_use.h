#pragma once

#include <chrono>

namespace shoal::cli {

// How busy the machine is with other things while we measure.
class CpuUse {
 public:
  CpuUse();
  // Cores that processes other than this one and its children have used on average since
  // construction.
  double others() const;

 private:
  long long machine_, ours_;  // clock ticks
  std::chrono::steady_clock::time_point start_;
};

}  // namespace shoal::cli
