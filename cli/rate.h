#pragma once

#include <chrono>
#include <cstdint>

namespace shoal::cli {

// Repeats work(), which returns its number of steps, for `seconds`. Returns steps per second.
template <class Work>
double rate(double seconds, Work work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::int64_t steps = 0;
  for (double elapsed = 0;;) {
    steps += work();
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    if (elapsed >= seconds) return static_cast<double>(steps) / elapsed;
  }
}

}  // namespace shoal::cli
