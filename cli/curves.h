#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal::cli {

// How runs that differ in their seed alone went, on average.
struct Curve {
  std::string label;  // what sets them apart from the others, e.g. "ppo.clip=0.1"; empty: nothing
  int runs = 0;
  std::vector<double> x, mean;
  std::vector<double> low, high;  // the 95 % confidence interval of the mean, by Student's t; of
                                  // one run: none
};

// Columns of progress.csv.
struct Axes {
  std::string x = "steps", y = "return_mean";
};

// A curve for each configuration among these run folders. Several runs are averaged where all of
// them have been, between their points along straight lines. Throws Error for a folder without
// progress, and columns that it does not have.
std::vector<Curve> read_curves(const std::vector<std::filesystem::path>& runs, const Axes& axes);

}  // namespace shoal::cli
