#include "cli/bench_line.h"

#include <algorithm>
#include <chrono>
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
          {"median", five_digits(middle(line.runs))},
          {"max", five_digits(most)},
          {"other_cpu", std::round(line.other_cpu * 100) / 100}};
}

double five_digits(double x) {
  if (x == 0 || !std::isfinite(x)) return 0;
  const double scale = std::pow(10, 4 - std::floor(std::log10(std::abs(x))));
  return std::round(x * scale) / scale;
}

double middle(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return median_of_sorted(numbers);
}

double rate_of(double seconds, const std::function<void()>& act) {
  std::int64_t times = 0;
  const auto start = std::chrono::steady_clock::now();
  double passed = 0;
  do {
    for (int i = 0; i < 16; ++i) act();
    times += 16;
    passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } while (passed < seconds);
  return static_cast<double>(times) / passed;
}

void require_runs(std::int64_t runs, double seconds) {
  require(runs >= 1, "--runs: found {}, expected at least 1", runs);
  require(seconds > 0, "--seconds: found {}, expected a number above 0", seconds);
}

}  // namespace shoal::cli
