#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>

namespace shoal {

// How a run ended, in its folder's summary.json.
struct RunSummary {
  double final_return = std::nan("");  // mean of the last episodes; NaN: there were none
  std::int64_t steps = 0;
  double sps = 0;       // steps a second
  bool solved = false;  // Config::stop_return was reached
};

// Throws Error if the file is damaged.
RunSummary read_summary(const std::filesystem::path& file);

}  // namespace shoal
