#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "shoal/agents/qpg_agent.h"
#include "shoal/distributed/process_group.h"
#include "shoal/models/acting_network.h"
#include "shoal/replays/step_replay.h"

namespace shoal {

// One update of SAC, TD3 or DDPG; they differ in these options alone.
struct QpgUpdate {
  double critic_rate = 0, policy_rate = 0;  // learning rates
  bool policy = true;                       // also update the policy, by the new critics
  double tau = 0;                           // of the targets' moving average; 0: they stay
  double alpha = 0;                         // weight of a stochastic policy's entropy
  // Of the target policy's actions: the deviation of the noise that is added, and where it is cut.
  // 0: none.
  double target_noise = 0, target_clip = 0;
  // The policy maximizes the least of the critics' values; otherwise the first critic's.
  bool least_value = true;
  std::uint64_t seed = 0, number = 0;  // of the noise
  // The batch holds equally many steps of each of these slices, each with noise of its own.
  int slices = 1, first_slice = 0;
  // Ranks draw one batch and share it: the number of parts, and the index of this one. Its noise is
  // that of its steps in the whole batch.
  int parts = 1, part = 0;
};

// The result of an update.
struct QpgResult {
  double critic_loss = 0, policy_loss = 0;
  double value = 0;     // mean of the critics' values
  double log_prob = 0;  // mean, of the actions that a stochastic policy draws now
  double td_error = 0;  // mean of the errors
  at::Tensor error;     // [N] float32 on the CPU: |target - value|, mean of the critics
};

// Moments of Adam, like the parameters they are of.
struct QpgMoments {
  at::Tensor mean, square;
  at::Tensor steps;  // [] int64, on the CPU
};

// Learns networks from one batch at a time:
//
//   y       = reward + discount * (least target value of (s', a') - alpha log p(a' | s'))
//   critics : sum over them of the mean of weight * (value(s, a) - y)^2 / 2
//   policy  : the mean of alpha log p(a | s) - value(s, a), with a from the policy
//
// each by one step of Adam, the policy's with the critics as they have become, and the targets
// after them. log p is of actions in half-widths of their bounds.
class QpgLearner {
 public:
  QpgLearner(QpgAgent& agent, ProcessGroup& ranks);
  virtual ~QpgLearner() = default;
  virtual QpgResult learn(const Transitions& batch, const QpgUpdate& update) = 0;

  QpgMoments policy_moments, critic_moments;

 protected:
  // The gradient of the whole batch from that of this rank's share; in place.
  void average(const at::Tensor& gradient) const;
  ProcessGroup& ranks_;
};

// By tensor operations, on the agent's device.
std::unique_ptr<QpgLearner> make_tensor_learner(QpgAgent& agent,
                                                ProcessGroup& ranks = group_of_one());
// The same written out by hand for batches of n, on the CPU: results differ by rounding, and are
// the same whatever the number of threads. precision: of the networks' products, both factors of
// which are rounded to bf16; float32 all the same on a CPU that multiplies float32 faster.
std::unique_ptr<QpgLearner> make_fused_learner(QpgAgent& agent, std::int64_t n,
                                               Precision precision = Precision::kFloat32,
                                               ProcessGroup& ranks = group_of_one());

// The noise of an update of n steps: standard normal, [panels][dims][kPanel] of the next actions
// (with `next`) or of those at the observations.
std::int64_t qpg_noise_size(std::int64_t n, std::int64_t dims);
void qpg_noise(const QpgUpdate& update, bool next, std::int64_t n, std::int64_t dims, float* to);

}  // namespace shoal
