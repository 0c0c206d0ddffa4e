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

// Twin delayed deep deterministic policy gradient (Fujimoto et al., arXiv 1802.09477), with n-step
// returns and priorities as the replay has them. Before it learns it acts at random; then with
// noise.
//
// One update:
//   a'      = target policy(s') + noise, cut
//   y       = reward + discount * min target critics (s', a')
//   critics : mean of weight * (critic(s, a) - y)^2 / 2, summed over them
// and, every policy_interval of them,
//   policy  : mean of -(first critic)(s, policy(s)), the critic having learned
// after which all targets move. Noise is in half-widths of the action's bounds.
struct Td3Options {
  double critic_rate = 1e-3, policy_rate = 1e-3;  // learning rates of Adam
  bool anneal_learning_rate = false;              // both linearly to 0 over the schedule
  std::int64_t batch = 256;                       // steps of one update
  Precision precision = Precision::kFloat32;      // of an MLP's products on the CPU
  double tau = 0.005;                             // how far targets move
  std::int64_t policy_interval = 2;  // updates between two of the policy and of the targets
  double target_noise = 0.2;         // deviation
  double target_clip = 0.5;          // noise beyond this is cut
  double exploration_noise = 0.1;    // deviation, of acting
  // Exponent (beta) of the importance weights: from the first to the second value over the
  // schedule.
  double beta_start = 0.4, beta_end = 1;
  std::uint64_t seed = 1;  // of the noise in updates
};
OptionList describe(Td3Options& options);  // table [td3]

// agent, of a deterministic policy, which must be on its device already, and replay must outlive
// the algo. On the CPU, with MLPs, the results do not depend on the number of threads. Throws Error
// for invalid options. Several ranks share a batch as in make_dqn().
std::unique_ptr<OffPolicyAlgo> make_td3(QpgAgent& agent, StepReplay& replay,
                                        const Td3Options& options,
                                        ProcessGroup& ranks = group_of_one());

}  // namespace shoal
