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
// 2019), as rlpyt has it and calls it: Q-learning from sequences, with the state
// stored when they were made and brought up to date by a burn-in; n-step returns and priorities as
// the replay has them. Double Q-learning always.
struct R2d1Options {
  double learning_rate = 1e-4;
  bool anneal_learning_rate = false;  // linearly to 0 over the schedule
  OptimizerKind optimizer = OptimizerKind::kAdam;
  double optimizer_epsilon = 1e-5;      // the paper: 1e-3, with which small tasks are not learned
  std::int64_t batch = 32;              // sequences of one update, of all ranks together
  std::int64_t target_interval = 2500;  // updates between two of the target network
  double huber_delta = 0;               // errors beyond this count linearly; 0: the square of all
  double max_grad_norm = 80;            // global norm; 0: not clipped
  double value_scale = 1e-3;            // epsilon of rescale_value()
  // The priority of a sequence: this much of the largest error of its steps, the rest of the mean.
  double priority_eta = 0.9;
  double beta = 0.6;  // how far importance weights make up for priorities
  // The probability of an action at random, as DqnOptions has it.
  double epsilon_start = 1, epsilon_end = 0.1;
  double exploration_fraction = 0.1;
  double epsilon_last = 0.0005;
};
OptionList describe(R2d1Options& options);  // table [r2d1]

// The network learns h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x instead of returns x, so that
// large ones need no clipping (Pohlen et al., arXiv 1805.11593, proposition A.2); and its inverse.
at::Tensor rescale_value(const at::Tensor& x, double epsilon);
at::Tensor unscale_value(const at::Tensor& x, double epsilon);

// agent, which must be on its device already, replay, which holds this rank's sequences, and ranks
// must outlive the algo. Throws Error for options that make no sense, and for a batch that the
// ranks cannot share evenly.
std::unique_ptr<OffPolicyAlgo> make_r2d1(RecurrentQAgent& agent, SequenceReplay& replay,
                                         const R2d1Options& options,
                                         ProcessGroup& ranks = group_of_one());

}  // namespace shoal
