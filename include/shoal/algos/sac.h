#pragma once

#include <cstdint>
#include <memory>

#include "shoal/agents/qpg_agent.h"
#include "shoal/algos/off_policy.h"
#include "shoal/core/option.h"
#include "shoal/distributed/process_group.h"
#include "shoal/models/acting_network.h"
#include "shoal/replays/step_replay.h"

namespace shoal {

// Soft actor-critic with a temperature that is learned (Haarnoja et al., arXiv 1812.05905), with
// n-step returns and priorities as the replay has them. Before it learns it acts at random; then as
// its policy says.
//
// One update, with a' ~ policy(s') and a ~ policy(s):
//   y       = reward + discount * (min target critics (s', a') - alpha log p(a' | s'))
//   critics : mean of weight * (critic(s, a) - y)^2 / 2, summed over them
//   policy  : mean of alpha log p(a | s) - min critics (s, a), the critics having learned
//   alpha   : log_alpha * -(mean of log p(a | s) + target entropy), for the next update
// Then the target critics move. The importance weights count for the critics alone.
struct SacOptions {
  double learning_rate = 3e-4;                // of the critics, the policy and log_alpha; Adam
  bool anneal_learning_rate = false;          // linearly to 0 over the schedule
  std::int64_t batch = 256;                   // steps of one update
  Precision precision = Precision::kFloat32;  // of an MLP's products on the CPU
  double tau = 0.005;                         // how far the target critics move towards the critics
  double alpha = 1;  // weight of the entropy beside the rewards; the initial one if it is learned
  bool learn_alpha = true;
  // The entropy that learning alpha keeps the policy at, for each number of the action, which is in
  // half-widths of its bounds.
  double target_entropy = -1;
  // Exponent (beta) of the importance weights: from the first to the second value over the
  // schedule.
  double beta_start = 0.4, beta_end = 1;
  std::uint64_t seed = 1;  // of the actions drawn in updates
};
OptionList describe(SacOptions& options);  // table [sac]

// agent, of a stochastic policy, which must be on its device already, and replay must outlive the
// algo. On the CPU, with MLPs, the results do not depend on the number of threads. Throws Error for
// invalid options. Several ranks share a batch as in make_dqn().
std::unique_ptr<OffPolicyAlgo> make_sac(QpgAgent& agent, StepReplay& replay,
                                        const SacOptions& options,
                                        ProcessGroup& ranks = group_of_one());

}  // namespace shoal
