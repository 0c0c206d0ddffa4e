#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace shoal::cli {

// A measurement, in the format of the peers' benchmarks.
struct BenchLine {
  std::string bench, peer = "shoal";
  nlohmann::ordered_json config;
  std::string unit;
  std::vector<double> runs;
  double other_cpu = 0;  // cores used by other processes during the runs
};
nlohmann::ordered_json json_of(const BenchLine& line);  // the caller may add fields

double five_digits(double x);

// Throws Error unless runs >= 1 and seconds > 0.
void require_runs(std::int64_t runs, double seconds);

}  // namespace shoal::cli
