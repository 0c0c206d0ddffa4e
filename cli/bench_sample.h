#pragma once

#include <string>
#include <vector>

#include "shoal/runners/config.h"

namespace shoal::cli {

struct BenchOptions {
  Config config;
  int runs = 5;
  double seconds = 2;  // per run
};

struct BenchResult {
  std::vector<double> sampling;  // agent steps per second, one number per run
  std::vector<double> bounds;    // the bound of each run, from the limits measured beside it
  double environments = 0;       // the workers alone, with actions that cost nothing; median
  double acting = 0;       // the agent alone, in the same batches and number of processes; median
  bool overlap = false;    // see sampling_bound()
  SamplerOptions sampler;  // as measured: of `auto`, the chosen one
  double other_cpu = 0;    // cores used by other processes during the runs

  double median() const;
  double bound() const;  // median
  double share() const;  // fraction of the bound that was reached; median
};

// Whether the agent acts for some environments while others are stepped.
bool acting_overlaps_stepping(const SamplerOptions& sampler);
// Upper bound of the sampling rate (steps per second), from the rates of environments alone and of
// acting alone. The slower rate if the two overlap; otherwise each process does one after the
// other.
double sampling_bound(double environments, double acting, bool overlap);

// Measures sampling, and environments and acting alone. Forks workers: the rules of make_sampler()
// apply.
BenchResult bench_sample(const BenchOptions& options);

// The arithmetic of acting on this machine, as text for the user.
std::string arithmetic(const Config& config);

}  // namespace shoal::cli
