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
  std::int64_t envs = 16;  // at most one per episode is used
  int workers = 2;         // at most one per environment is used; ignored by serial
  std::uint64_t seed = 1;  // of the evaluation stream: no training environment ever has these seeds
  bool greedy = true;      // the most likely actions instead of sampled ones
  SamplerKind kind = SamplerKind::kParallelGpu;
  std::int64_t horizon = 128;  // steps between looks at what has ended
  // As SamplerOptions has them.
  std::chrono::milliseconds step_limit{60'000}, reset_limit{300'000};
  bool pin = false;
};

struct EvaluationResult {
  double mean_return = 0,
         std_return =
             0;  // of the raw scores; the deviation is that of these episodes (divided by N)
  std::int64_t episodes = 0;    // complete ones; none, if stopped early, have a mean of NaN
  std::vector<double> returns;  // by environment, then by order in time
};

// Plays exactly `episodes` complete episodes. How many of them each environment plays is fixed
// beforehand (its first ones count), so that short episodes are not favoured by ending first.
class Evaluator {
 public:
  // Forks workers: the rules of make_sampler() hold. Throws Error for impossible options, before
  // any fork.
  Evaluator(const EnvFactory& make_env, Agent& agent, const EvaluationOptions& options);
  // Stops early, with the episodes complete so far, once `stop` returns true. May be called again,
  // for other episodes: those that the run before left unfinished are played out and do not count.
  // Throws WorkerError if an environment fails.
  EvaluationResult run(const std::function<bool()>& stop = {});

 private:
  std::int64_t quota(std::int64_t env) const;
  EvaluationOptions options_;
  std::unique_ptr<Sampler> sampler_;
  bool begun_ = false;               // every environment is somewhere inside an episode
  std::vector<std::int64_t> ended_;  // episodes of each environment that have ended, in all runs
};

// Both steps at once.
EvaluationResult evaluate(const EnvFactory& make_env, Agent& agent,
                          const EvaluationOptions& options);

}  // namespace shoal
