#pragma once

#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/algos/algo.h"
#include "shoal/algos/optimizer.h"
#include "shoal/core/option.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

// The V-trace actor-critic of IMPALA (Espeholt et al., arXiv 1802.01561, section 4.2): one gradient
// step on each rollout, whose policy may be some versions older. The defaults are those of the
// paper for Atari, except that the loss is a mean over steps, not a sum, and the learning rate is
// for Adam.
struct ImpalaOptions {
  double learning_rate = 6e-4;
  OptimizerKind optimizer = OptimizerKind::kAdam;
  double optimizer_epsilon = 1e-5;
  double discount = 0.99;         // gamma
  double lambda = 1;              // of V-trace; 1: as in the paper
  double rho_bar = 1, c_bar = 1;  // upper bounds of the importance ratios
  double value_coef = 0.5;
  double entropy_coef = 0.01;
  double max_grad_norm = 40;         // global norm; 0: not clipped
  bool anneal_learning_rate = true;  // linearly to 0 over the schedule
};
OptionList describe(ImpalaOptions& options);  // table [impala]

// If the policies are equal and lambda is 1, the step is that of A2C with gae_lambda 1. The agent
// must outlive the algorithm and be on its device already. ranks: see make_ppo().
std::unique_ptr<OnPolicyAlgo> make_impala(ActorCritic& agent, const ImpalaOptions& options,
                                          ProcessGroup& ranks = group_of_one());

}  // namespace shoal
