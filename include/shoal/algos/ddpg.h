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

// Deep deterministic policy gradient (Lillicrap et al., arXiv 1509.02971), with n-step returns and
// priorities as the replay has them. Before it learns it acts at random; then with Gaussian noise.
//
// One update:
//   y      = reward + discount * target critic (s', target policy(s'))
//   critic : mean of weight * (critic(s, a) - y)^2 / 2
//   policy : mean of -critic(s, policy(s)), the critic having learned
// after which both targets move. With several critics, y uses the smallest of the targets' values,
// and the policy maximizes the first critic's.
struct DdpgOptions {
  double critic_rate = 1e-3, policy_rate = 1e-3;  // learning rates of Adam
  bool anneal_learning_rate = false;              // both linearly to 0 over the schedule
  std::int64_t batch = 256;                       // steps of one update
  Precision precision = Precision::kFloat32;      // of an MLP's products on the CPU
  double tau = 0.005;                             // how far targets move
  double exploration_noise = 0.1;  // deviation, in half-widths of the action's bounds
  // Exponent (beta) of the importance weights: from the first to the second value over the
  // schedule.
  double beta_start = 0.4, beta_end = 1;
};
OptionList describe(DdpgOptions& options);  // table [ddpg]

// agent, of a deterministic policy, which must be on its device already, and replay must outlive
// the algo. On the CPU, with MLPs, the results do not depend on the number of threads. Throws Error
// for invalid options. Several ranks share a batch as in make_dqn().
std::unique_ptr<OffPolicyAlgo> make_ddpg(QpgAgent& agent, StepReplay& replay,
                                         const DdpgOptions& options,
                                         ProcessGroup& ranks = group_of_one());

}  // namespace shoal
