#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "shoal/samplers/sampler.h"

namespace shoal {

struct EvaluationOptions {
  std::int64_t episodes = 100;
  std::int64_t envs = 16;  // at most one per episode is used, but for those stepped together
  int workers = 2;         // at least 1; at most one per environment is used, none by serial
  std::uint64_t seed = 1;  // of the evaluation stream, whose seeds training never uses
  bool greedy = true;      // greedy instead of sampled actions
  SamplerKind kind = SamplerKind::kParallelGpu;
  std::int64_t horizon = 128;  // steps per rollout, between checks for finished episodes
  // As in SamplerOptions.
  std::chrono::milliseconds step_limit{60'000}, reset_limit{300'000};
  bool pin = false;
};

struct EvaluationResult {
  // Returns are raw scores; std_return is the population standard deviation (divided by N).
  double mean_return = 0, std_return = 0;
  std::int64_t episodes = 0;    // complete episodes; if stopped before the first, the mean is NaN
  std::vector<double> returns;  // by environment, then by time
  std::vector<std::int64_t> lengths;  // steps of the same episodes
  // The other reduced infos of the same episodes, by name.
  Named<std::vector<double>> infos;
};

// Plays exactly `episodes` complete episodes. The number of episodes of each environment is fixed
// in advance, and its first episodes count; otherwise short episodes, which end first, would be
// over-represented.
class Evaluator {
 public:
  // Forks workers: the rules of make_sampler() apply. Throws Error for invalid options, before any
  // fork.
  Evaluator(const EnvFactory& make_env, Agent& agent, const EvaluationOptions& options);
  // Stops early, with the episodes completed so far, once `stop` returns true. Each further call
  // plays other episodes; episodes left unfinished by the call before are played to their end and
  // do not count. Throws as Sampler::collect().
  EvaluationResult run(const std::function<bool()>& stop = {});

 private:
  std::int64_t quota(std::int64_t env) const;
  EvaluationOptions options_;
  std::unique_ptr<Sampler> sampler_;
  bool begun_ = false;               // every environment is inside an episode
  std::vector<std::int64_t> ended_;  // finished episodes of each environment, over all calls
};

// Constructs an Evaluator and runs it once.
EvaluationResult evaluate(const EnvFactory& make_env, Agent& agent,
                          const EvaluationOptions& options);

}  // namespace shoal
