#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal::cli {

// The mean of the runs that differ in their seed only.
struct Curve {
  std::string label;  // settings that differ between the curves, e.g. "ppo.clip=0.1"; may be empty
  int runs = 0;
  std::vector<double> x, mean;
  // The 95 % confidence interval of the mean (Student's t); empty for one run.
  std::vector<double> low, high;
};

// Columns of progress.csv.
struct Axes {
  std::string x = "steps", y = "return_mean";
};

// One curve per configuration among these run folders. The mean covers the range of x that all runs
// of the configuration reached; values between two points are interpolated linearly. Throws Error
// for a folder without progress, and for a missing column.
std::vector<Curve> read_curves(const std::vector<std::filesystem::path>& runs, const Axes& axes);

}  // namespace shoal::cli
