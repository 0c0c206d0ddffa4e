#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>

namespace shoal {

// The outcome of a run, from summary.json in its folder.
struct RunSummary {
  double final_return = std::nan("");  // mean of the last episodes; NaN: none
  std::int64_t steps = 0;
  double sps = 0;       // steps per second
  bool solved = false;  // Config::stop_return was reached
};

// Throws Error if the file is damaged.
RunSummary read_summary(const std::filesystem::path& file);

}  // namespace shoal
