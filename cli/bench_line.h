#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace shoal::cli {

// A measurement, as the peers' benchmarks print theirs.
struct BenchLine {
  std::string bench, peer = "shoal";
  nlohmann::ordered_json config;
  std::string unit;
  std::vector<double> runs;
  double other_cpu = 0;  // cores that other processes used meanwhile
};
nlohmann::ordered_json json_of(const BenchLine& line);  // to which more may be added

double five_digits(double x);

// The median of at least one number.
double middle(std::vector<double> numbers);

// How often a second `act` can be done, for so long.
double rate_of(double seconds, const std::function<void()>& act);

// Throws Error unless a benchmark can run so often, for so long.
void require_runs(std::int64_t runs, double seconds);

}  // namespace shoal::cli
