#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "shoal/samplers/sampler.h"

namespace shoal {

struct ChoiceOptions {
  // False: nothing is measured, and parallel-gpu with a worker for each core is chosen. For agents
  // that will act on a GPU, which no forked process may use before, and for asynchronous sampling.
  bool measure = true;
  // Steps of the run, over all ranks. After a first round, measuring ends when it has taken a tenth
  // of the time in which they are sampled, or a second. Starting the candidates comes on top.
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  // No further candidate is started after this time. A start that takes three times as long is
  // given up: without that candidate, or, if one environment takes so long, without measuring.
  std::chrono::milliseconds start_limit{1'000};
  int threads = 1;  // of tensor operations, with which this process will act
  // Environments that only work together, such as the agents of a game (BatchTraits::multiple).
  std::int64_t together = 1;
  // With several ranks, each of which calls choose_sampler() for its own environments: their
  // number, and a function that replaces numbers by their sums over all ranks.
  int ranks = 1;
  std::function<void(std::vector<double>&)> sum = {};
};

struct SamplerChoice {
  struct Measured {
    std::string sampler;  // "parallel-cpu, 2 workers"
    double rate;          // steps per second, over all ranks; median of the turns
  };
  SamplerOptions options;          // with kind, workers and groups
  std::vector<Measured> measured;  // the chosen first; empty if the choice follows a rule
  // Why a rule has chosen, for instance a failure; "" if there was only one candidate.
  std::string reason;
};

// Chooses a sampler for SamplerKind::kAuto among those that make the same samples, bit for bit: by
// measuring them, in processes of their own that step environments of their own. They have ended
// when the function returns, and the state of this process is as before. If an environment fails
// meanwhile, a rule chooses, and the caller's own sampler will meet the failure.
//
// Options that are not chosen limit the choice: workers above 0, pin and on_death = kRestart (no
// serial sampler), groups = 2, dynamic_batch (parallel-gpu only). Without
// Agent::rows_are_independent() all candidates act in the same batches.
//
// The rules of make_sampler() apply. Throws Interrupted.
SamplerChoice choose_sampler(const EnvFactory& make_env, Agent& agent,
                             const SamplerOptions& options, const ChoiceOptions& choice = {});

}  // namespace shoal
