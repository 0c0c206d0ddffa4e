#pragma once

#include <chrono>

namespace shoal::cli {

// Measures the load of other processes during a benchmark.
class CpuUse {
 public:
  CpuUse();
  // Average number of cores used since construction by processes other than this one and its
  // children.
  double others() const;

 private:
  long long machine_, ours_;  // clock ticks
  std::chrono::steady_clock::time_point start_;
};

}  // namespace shoal::cli
