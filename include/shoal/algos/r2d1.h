#pragma once

#include <cstdint>
#include <memory>

#include "shoal/agents/recurrent_q_agent.h"
#include "shoal/algos/off_policy.h"
#include "shoal/algos/optimizer.h"
#include "shoal/core/option.h"
#include "shoal/distributed/process_group.h"
#include "shoal/replays/sequence_replay.h"

namespace shoal {

// R2D2 (Kapturowski et al., "Recurrent experience replay in distributed reinforcement learning",
// 2019), in the form and under the name of rlpyt: double Q-learning from sequences, which start
// from the state stored at sampling, refreshed by a burn-in. The replay's options set n-step
// returns and priorities.
struct R2d1Options {
  double learning_rate = 1e-4;
  bool anneal_learning_rate = false;  // linearly to 0 over the schedule
  OptimizerKind optimizer = OptimizerKind::kAdam;
  double optimizer_epsilon = 1e-5;      // the paper's 1e-3 fails to learn small tasks
  std::int64_t batch = 32;              // sequences of one update, over all ranks
  std::int64_t target_interval = 2500;  // updates between two copies to the target network
  double huber_delta = 0;               // errors beyond it count linearly; 0: all squared
  double max_grad_norm = 80;            // global norm; 0: not clipped
  double value_scale = 1e-3;            // epsilon of rescale_value()
  // The priority of a sequence is eta * largest error + (1 - eta) * mean error of its steps.
  double priority_eta = 0.9;
  double beta = 0.6;  // exponent of the importance weights
  // Probability of a random action: see DqnOptions.
  double epsilon_start = 1, epsilon_end = 0.1;
  double exploration_fraction = 0.1;
  double epsilon_last = 0.0005;
};
OptionList describe(R2d1Options& options);  // table [r2d1]

// The network learns h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x instead of returns x, so that
// large returns need no clipping (Pohlen et al., arXiv 1805.11593, proposition A.2).
// unscale_value() is the inverse. epsilon: above 0.
at::Tensor rescale_value(const at::Tensor& x, double epsilon);
at::Tensor unscale_value(const at::Tensor& x, double epsilon);

// The agent, which must be on its device already, the replay, which holds this rank's sequences,
// and ranks must outlive the algorithm. Throws Error for invalid options, and for a batch that the
// ranks cannot share evenly.
std::unique_ptr<OffPolicyAlgo> make_r2d1(RecurrentQAgent& agent, SequenceReplay& replay,
                                         const R2d1Options& options,
                                         ProcessGroup& ranks = group_of_one());

}  // namespace shoal
