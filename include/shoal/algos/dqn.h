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

// Deep Q-learning (Mnih et al., 2015), with n-step returns and priorities as the replay has them,
// and dueling, distributional and noisy networks as the agent has them; all of them together are
// Rainbow (Hessel et al., arXiv 1710.02298).
struct DqnOptions {
  double learning_rate = 1e-4;
  bool anneal_learning_rate = false;  // linearly to 0 over the schedule
  OptimizerKind optimizer = OptimizerKind::kAdam;
  double optimizer_epsilon = 1e-5;
  std::int64_t batch = 128;  // steps of one update
  // The action whose value is looked up in the target network is chosen by the other one (van
  // Hasselt et al., arXiv 1509.06461).
  bool double_q = true;
  std::int64_t target_interval = 312;  // updates between two of the target network
  double tau = 1;                      // how far it moves then
  double huber_delta =
      1;  // errors beyond this count linearly; 0: the square of all (quantiles: linear)
  double max_grad_norm = 10;  // global norm; 0: not clipped
  // How far importance weights make up for priorities: from the first number to the second over the
  // schedule.
  double beta_start = 0.4, beta_end = 1;
  // The probability of an action at random: from the first number to the second over this part of
  // the schedule, then the second. With an epsilon for each environment, that is where the first of
  // them ends; the last ends at epsilon_last, the others between, evenly in their logarithms.
  double epsilon_start = 1, epsilon_end = 0.01;
  double exploration_fraction = 0.1;
  double epsilon_last = 0.01;
};
OptionList describe(DqnOptions& options);  // table [dqn]

// agent, which must be on its device already, and replay must outlive the algo. Throws Error for
// options that make no sense.
//
// With several ranks, each draws its share of a batch from a replay of its own environments, whose
// first slice (StepReplayOptions) follows on those of the rank before, and all of them take the
// same steps: down the gradient of the whole batch. What they draw and learn does not depend on how
// many ranks share the slices.
std::unique_ptr<OffPolicyAlgo> make_dqn(QAgent& agent, StepReplay& replay,
                                        const DqnOptions& options,
                                        ProcessGroup& ranks = group_of_one());

}  // namespace shoal
