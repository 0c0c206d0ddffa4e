#include "cli/bench_line.h"

#include <algorithm>
#include <cmath>

#include "shoal/core/error.h"
#include "src/core/median.h"

namespace shoal::cli {

nlohmann::ordered_json json_of(const BenchLine& line) {
  auto runs = nlohmann::ordered_json::array();
  for (const double run : line.runs) runs.push_back(five_digits(run));
  const auto [least, most] = std::ranges::minmax(line.runs);
  return {{"bench", line.bench},
          {"peer", line.peer},
          {"config", line.config},
          {"unit", line.unit},
          {"runs", runs},
          {"min", five_digits(least)},
          {"median", five_digits(median_of(line.runs))},
          {"max", five_digits(most)},
          {"other_cpu", std::round(line.other_cpu * 100) / 100}};
}

double five_digits(double x) {
  if (x == 0 || !std::isfinite(x)) return 0;
  const double scale = std::pow(10, 4 - std::floor(std::log10(std::abs(x))));
  return std::round(x * scale) / scale;
}

void require_runs(std::int64_t runs, double seconds) {
  require(runs >= 1, "--runs: found {}, expected at least 1", runs);
  require(seconds > 0, "--seconds: found {}, expected a number above 0", seconds);
}

}  // namespace shoal::cli
