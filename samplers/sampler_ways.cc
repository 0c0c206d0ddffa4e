#include "samplers/sampler_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "samplers/partition.h"

namespace shoal {
namespace {

// Waking a worker takes about as long. Environments with slower steps gain from every core.
constexpr double kFastStep = 50e-6;

}  // namespace

std::string name_of(const SamplerWay& way) {
  std::string text = name_of(way.kind);
  if (way.workers > 0)
    text += fmt::format(", {} worker{}", way.workers, way.workers == 1 ? "" : "s");
  return way.groups > 1 ? text + fmt::format(", {} groups", way.groups) : text;
}

SamplerOptions with_way(SamplerOptions options, const SamplerWay& way) {
  options.kind = way.kind;
  options.workers = way.workers;
  options.groups = way.groups;
  return options;
}

bool may_be_serial(const SamplerOptions& o) {
  return o.workers == 0 && !o.pin && o.on_death == OnDeath::kFail;
}

std::vector<SamplerWay> sampler_ways(const SamplerOptions& o, int cores, bool by_rows,
                                     const SamplingCost& cost) {
  const bool fast = cost.step < kFastStep, free = o.workers == 0;
  const SamplerWay serial{SamplerKind::kSerial, 0, o.groups};
  if (may_be_serial(o) && (cores == 1 || o.envs == 1)) return {serial};
  std::vector<SamplerWay> ways;
  const auto add = [&](SamplerKind kind, int workers, int groups) {
    const SamplerWay way{kind, free ? even_workers(o.envs, workers) : o.workers, groups};
    // A single worker is useful only if it steps fast environments while this process acts.
    const bool lone =
        free && way.workers == 1 && !ways.empty() && !(fast && kind == SamplerKind::kParallelGpu);
    if (!lone && groups <= o.envs && std::ranges::find(ways, way) == ways.end())
      ways.push_back(way);
  };
  if (fast && may_be_serial(o)) ways.push_back(serial);
  if (by_rows)
    for (const int workers : {cores, 2 * cores, cores / 2})
      add(SamplerKind::kParallelCpu, workers, o.groups);
  const int most_groups = by_rows ? 2 : o.groups;
  for (const int workers : {cores, fast ? 1 : cores, cores / 2})
    for (int groups = o.groups; groups <= most_groups; ++groups)
      add(SamplerKind::kParallelGpu, workers, groups);
  return ways;
}

bool is_short(const SamplingCost& cost, std::int64_t steps) {
  constexpr double kShortRun = 1;  // seconds
  return static_cast<double>(steps) * cost.step < kShortRun;
}

std::string reason_not_to_measure(const SamplerOptions& o, int cores, const SamplingCost& cost,
                                  std::int64_t steps) {
  constexpr double kSlowStart = 1, kFirstSteps = 4;  // seconds; steps
  if (is_short(cost, steps)) return "the run samples for less than a second";
  const double each = cost.making + kFirstSteps * cost.step;
  if (cost.starting + static_cast<double>(o.envs) * each / cores > kSlowStart)
    return "starting the environments takes longer";
  return "";
}

std::size_t way_by_rule(const std::vector<SamplerWay>& ways, bool is_short) {
  const auto acting = std::ranges::find(ways, SamplerKind::kParallelCpu, &SamplerWay::kind);
  return is_short || acting == ways.end() ? 0 : static_cast<std::size_t>(acting - ways.begin());
}

std::size_t preferred_way(const std::vector<SamplerWay>& ways,
                          const std::vector<std::size_t>& usable, const Comparison& found) {
  constexpr double kHardly = 1.1;
  const auto rule = std::ranges::find(usable, way_by_rule(ways, false));
  if (rule == usable.end()) return found.fastest;
  const auto i = static_cast<std::size_t>(rule - usable.begin());
  return found.rates[found.fastest] < kHardly * found.rates[i] ? i : found.fastest;
}

std::int64_t measured_horizon(const SamplerOptions& o, const SamplingCost& cost) {
  constexpr double kSeconds = 0.2;
  const double steps = kSeconds / (cost.step * static_cast<double>(o.envs));
  return steps < static_cast<double>(o.horizon) ? std::max<std::int64_t>(1, std::llround(steps))
                                                : o.horizon;
}

}  // namespace shoal
