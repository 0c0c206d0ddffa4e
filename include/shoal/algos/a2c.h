#pragma once

#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/algos/algo.h"
#include "shoal/algos/optimizer.h"
#include "shoal/core/option.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

// Advantage actor-critic: one gradient step on each rollout. The synchronous form of A3C (Mnih et
// al., arXiv 1602.01783), with generalized advantage estimation.
struct A2cOptions {
  double learning_rate = 7e-4;
  OptimizerKind optimizer = OptimizerKind::kAdam;
  double optimizer_epsilon = 1e-5;
  double discount = 0.99;  // gamma
  double gae_lambda = 1;   // 1: n-step returns as in the paper
  double value_coef = 0.5;
  double entropy_coef = 0.01;
  int gradient_accumulation = 1;     // pieces of the rollout; see PpoOptions
  double max_grad_norm = 0.5;        // global norm; 0: not clipped
  bool normalize_advantage = false;  // over the rollout, to mean 0 and standard deviation 1
  bool anneal_learning_rate = true;  // linearly to 0 over the schedule
};
OptionList describe(A2cOptions& options);  // table [a2c]

// The agent must outlive the algorithm and be on its device already. ranks: see make_ppo().
std::unique_ptr<OnPolicyAlgo> make_a2c(ActorCritic& agent, const A2cOptions& options,
                                       ProcessGroup& ranks = group_of_one());

}  // namespace shoal
