#pragma once

#include <string>
#include <vector>

#include "samplers/turns.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// A way to fill rollouts.
struct SamplerWay {
  SamplerKind kind;
  int workers, groups;  // workers: 0 for serial
  bool operator==(const SamplerWay&) const = default;
};
std::string name_of(const SamplerWay& way);  // "parallel-gpu, 2 workers, 2 groups"
// Whether no option asks for workers.
bool may_be_serial(const SamplerOptions& options);
SamplerOptions with_way(SamplerOptions options, const SamplerWay& way);

// Sampling, measured with one environment in one process.
struct SamplingCost {
  double starting = 0;  // seconds before the first one can be made: to load an interpreter
  double making = 0;    // seconds to make and reset it
  double step = 0;      // seconds of a step, with its action
};

// The ways among which choose_sampler() chooses, the most promising first. by_rows: whether the
// agent may act in batches of any size.
std::vector<SamplerWay> sampler_ways(const SamplerOptions& options, int cores, bool by_rows,
                                     const SamplingCost& cost);

// Whether so many steps take so little time that choosing among ways would gain nothing.
bool is_short(const SamplingCost& cost, std::int64_t steps);

// The reason why the ways need not, or cannot, be measured; "" if they can.
std::string reason_not_to_measure(const SamplerOptions& options, int cores,
                                  const SamplingCost& cost, std::int64_t steps);

// The index of the way without measuring: of short runs the first. Otherwise workers that also act
// if they may, because they wait for nobody until the rollout is full.
std::size_t way_by_rule(const std::vector<SamplerWay>& ways, bool is_short);

// The index in `usable`, those ways that were measured, of the one to choose: the fastest, unless
// it is hardly faster than the one of the rule. Such a difference may be chance, and a short
// rollout shows parallel-cpu too slow: the values of its last observations weigh more.
std::size_t preferred_way(const std::vector<SamplerWay>& ways,
                          const std::vector<std::size_t>& usable, const Comparison& found);

// Steps of a rollout for measuring: at most the run's own, and about a fifth of a second.
std::int64_t measured_horizon(const SamplerOptions& options, const SamplingCost& cost);

}  // namespace shoal
