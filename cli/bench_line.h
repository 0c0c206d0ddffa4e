#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

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

// The median of at least one number.
double middle(std::vector<double> numbers);

// Calls of `act` per second, measured for `seconds`.
double rate_of(double seconds, const std::function<void()>& act);

// Throws Error unless runs >= 1 and seconds > 0.
void require_runs(std::int64_t runs, double seconds);

// Adds the flags --runs, --seconds and --json, which every benchmark of a part has, and runs it if
// the subcommand is chosen.
template <class Flags, class Run>
void complete_benchmark(CLI::App& command, const std::shared_ptr<Flags>& flags, Command& chosen,
                        Run run) {
  command.add_option("--runs", flags->runs, "Number of runs")->capture_default_str();
  command.add_option("--seconds", flags->seconds, "Duration of each run")->capture_default_str();
  command.add_flag("--json", flags->json, "Print the result as one line of JSON");
  command.callback(
      [flags, run, &chosen] { chosen = [flags, run](char** argv) { return run(*flags, argv); }; });
}

}  // namespace shoal::cli
