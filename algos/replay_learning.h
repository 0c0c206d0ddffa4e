#pragma once

#include <cstdint>
#include <string>

#include "shoal/algos/algo.h"
#include "shoal/algos/algo_spec.h"
#include "shoal/core/error.h"
#include "shoal/distributed/process_group.h"
#include "shoal/replays/sequence_replay.h"
#include "shoal/replays/step_replay.h"

namespace shoal {

// Added to an error to form a priority, so that items with error 0 are still drawn.
inline constexpr double kLeastPriority = 1e-6;

// The common part of the declarations of algorithms that learn batches from a replay.
template <class Self, class Options>
class BatchSpecOf : public SpecOf<Self, OffPolicySpec, Options> {
 public:
  bool uses_ranks() const override { return true; }
  std::string annealed_to_0() const override {
    if (!this->own_.anneal_learning_rate) return "";
    if constexpr (requires(Options o) { o.learning_rate; }) return "learning_rate";
    return "critic_rate";
  }
  bool uses_agent_options() const override { return false; }
  std::int64_t batch() const override { return this->own_.batch; }
};

inline void require_updates(int updates) {
  require(updates >= 1, "updates: found {}, expected at least 1", updates);
}

// Factor of the learning rate, from the option anneal_learning_rate of an algorithm.
template <class Options>
double learning_rate_factor(const Options& o, const Progress& progress) {
  return o.anneal_learning_rate ? progress.remaining() : 1;
}

// Exponent of the importance weights, from the options beta_start and beta_end of an algorithm.
template <class Options>
double beta_at(const Options& o, const Progress& progress) {
  return o.beta_end + (o.beta_start - o.beta_end) * progress.remaining();
}

// Throws Error unless the ranks and the slices of their replays can share a batch of `batch` steps
// evenly.
void check_shares(const std::string& algo, std::int64_t batch, const ProcessGroup& ranks,
                  const StepReplay& replay);

// This rank's share of a batch. Its importance weights are those of the whole batch.
const Transitions& sample_together(ProcessGroup& ranks, StepReplay& replay, std::int64_t batch,
                                   double beta);
const Sequences& sample_together(ProcessGroup& ranks, SequenceReplay& replay, std::int64_t batch,
                                 double beta);

}  // namespace shoal
