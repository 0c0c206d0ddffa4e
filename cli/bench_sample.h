#pragma once

#include <string>
#include <vector>

#include "shoal/runners/config.h"

namespace shoal::cli {

struct BenchOptions {
  Config config;
  int runs = 5;
  double seconds = 2;  // of each run
};

struct BenchResult {
  std::vector<double> sampling;  // agent steps a second, one number per run
  std::vector<double> bounds;    // what each run could reach at best, given the limits beside it
  double environments = 0;       // the workers alone, with actions that cost nothing; median
  double acting = 0;     // the agent alone, in the same batches and as many processes; median
  bool overlap = false;  // see sampling_bound()
  double other_cpu = 0;  // cores that other processes used meanwhile

  double median() const;
  double bound() const;  // median
  double share() const;  // of the bound that was reached, median over the runs
};

// Whether actions are chosen for some environments while others are stepped.
bool acting_overlaps_stepping(const SamplerOptions& sampler);
// Steps a second that sampling reaches at most, given what environments alone and acting alone do.
// If they overlap, the slower one of them; otherwise each process does one after the other.
double sampling_bound(double environments, double acting, bool overlap);

// Measures sampling, and each half of it alone. Forks workers: the rules of make_sampler() hold.
BenchResult bench_sample(const BenchOptions& options);

// The arithmetic acting uses on this machine, for people.
std::string arithmetic(const Config& config);

}  // namespace shoal::cli
