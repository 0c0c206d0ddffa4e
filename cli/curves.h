#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal::cli {

struct Line {
  std::vector<double> x, y;
};

// The mean of the runs that differ in their seed only.
struct Curve {
  std::string label;  // settings that differ between the curves, e.g. "ppo.clip=0.1"; may be empty
  std::string env = {};  // its id
  int runs = 0;
  std::vector<double> x, mean;
  // The 95 % confidence interval of the mean (Student's t), within the values that the runs have
  // had where progress.csv has columns for them (return_min, return_max); empty for fewer than
  // three runs. The interval of two is 13 times as wide as the distance between them.
  std::vector<double> low, high;
  std::vector<Line> lines = {};  // the two runs; empty unless there are two
};

// Columns of progress.csv.
struct Axes {
  std::string x = "steps", y = "return_mean";
};

// One curve per configuration among these run folders; a folder named twice counts once. The mean
// covers the range of x that all runs of the configuration reached; values between two points are
// interpolated linearly. Throws Error for a folder without progress, and for a missing column.
std::vector<Curve> read_curves(const std::vector<std::filesystem::path>& runs, const Axes& axes);

// The title of their chart, such as "CartPole-v1: mean return of the last 100 episodes".
std::string title_of(const std::vector<Curve>& curves, const std::string& y);

}  // namespace shoal::cli
