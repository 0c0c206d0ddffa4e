#pragma once

#include <cstdint>
#include <memory>

#include "shoal/agents/q_agent.h"
#include "shoal/algos/off_policy.h"
#include "shoal/algos/optimizer.h"
#include "shoal/core/option.h"
#include "shoal/distributed/process_group.h"
#include "shoal/replays/step_replay.h"

namespace shoal {

// Deep Q-learning (Mnih et al., 2015). The replay's options add n-step returns and priorities, the
// agent's options dueling, distributional and noisy networks; all of them together are Rainbow
// (Hessel et al., arXiv 1710.02298).
struct DqnOptions {
  double learning_rate = 1e-4;
  bool anneal_learning_rate = false;  // linearly to 0 over the schedule
  OptimizerKind optimizer = OptimizerKind::kAdam;
  double optimizer_epsilon = 1e-5;
  std::int64_t batch = 128;  // steps of one update
  // Double Q-learning: the online network chooses the action whose value the target network gives
  // (van Hasselt et al., arXiv 1509.06461).
  bool double_q = true;
  std::int64_t target_interval = 312;  // updates between two moves of the target network
  double tau = 1;                      // fraction by which it moves; 1: a copy
  double huber_delta =
      1;  // errors beyond it count linearly; 0: all squared (quantiles: all linear)
  double max_grad_norm = 10;  // global norm; 0: not clipped
  // Exponent (beta) of the importance weights: from the first to the second value over the
  // schedule.
  double beta_start = 0.4, beta_end = 1;
  // Probability of a random action: from epsilon_start to epsilon_end over this fraction of the
  // schedule, then constant. With an epsilon for each environment, the first one ends at
  // epsilon_end, the last at epsilon_last, and the others in between, evenly spaced in their
  // logarithms.
  double epsilon_start = 1, epsilon_end = 0.01;
  double exploration_fraction = 0.1;
  double epsilon_last = 0.01;
};
OptionList describe(DqnOptions& options);  // table [dqn]

// The agent, which must be on its device already, and the replay must outlive the algorithm. Throws
// Error for invalid options.
//
// With several ranks, each draws its share of a batch from a replay of its own environments, and
// all step by the gradient of the whole batch. A rank's first slice (StepReplayOptions) follows the
// slices of the rank before it. The draws and the result do not depend on the number of ranks that
// share the slices.
std::unique_ptr<OffPolicyAlgo> make_dqn(QAgent& agent, StepReplay& replay,
                                        const DqnOptions& options,
                                        ProcessGroup& ranks = group_of_one());

}  // namespace shoal
