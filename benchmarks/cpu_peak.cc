#include "benchmarks/cpu_peak.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "src/models/panel_bf16.h"
#include "src/models/panel_kernels.h"

namespace shoal::cli {
namespace {

constexpr int kTries = 20;

// Null: computes in float32.
const PanelBf16* bf16_for(Precision precision) {
  return precision == Precision::kBf16 ? panel_bf16() : nullptr;
}

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double peak_operations(int threads, Precision precision) {
  constexpr int kTimes = 200'000;
  const auto* bf16 = bf16_for(precision);
  const auto work = bf16 ? bf16->multiply_add : panel_kernels().multiply_add;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    std::int64_t done = 0;
    const auto seconds = seconds_of([&] {
      std::vector<std::jthread> others;
      for (int t = 1; t < threads; ++t) others.emplace_back([work] { work(kTimes); });
      done = work(kTimes);
    });
    best = std::max(best, static_cast<double>(done) * threads / seconds);
  }
  return best;
}

const char* instructions(Precision precision) {
  const auto* bf16 = bf16_for(precision);
  return bf16 ? bf16->instructions : panel_kernels().instructions;
}

double peak_copying() {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes);
  double best = 0;
  for (int i = 0; i < kTries; ++i)
    best = std::max(best, static_cast<double>(kBytes) / seconds_of([&] {
                            std::memcpy(to.data(), from.data(), kBytes);
                            asm volatile("" ::"r"(to.data()) : "memory");
                          }));
  return best;
}

}  // namespace shoal::cli
