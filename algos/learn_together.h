#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "algos/optimizer.h"
#include "shoal/agents/agent.h"
#include "shoal/sync/ranks.h"

// What several ranks do as one when they learn from windows.
namespace shoal {

class OverlappedAverage;

// What one rank knows of a step: a mean over `steps` of its own.
struct RankLoss {
  at::Tensor total;  // scalar, with gradients; undefined if there are no steps
  at::Tensor parts;  // [K] float32, numbers to report
  std::int64_t steps = 0;
};

// The optimizer of parameters that all ranks have alike.
class SharedOptimizer {
 public:
  SharedOptimizer(Ranks& ranks, OptimizerKind kind, std::vector<at::Tensor> parameters,
                  double epsilon);
  ~SharedOptimizer();

  // For the steps from now on.
  void set_learning_rate(double rate) { optimizer_.set_learning_rate(rate); }
  // Steps down the gradient of the mean over all ranks' steps, if there are any; that mean of the
  // parts, and behind them the norm of the gradient before it was cut: [K + 1]; undefined if there
  // are none. Parameters that the loss does not depend on have a gradient of 0.
  //
  // This rank's steps may come in so many pieces, at least one: what the loss of one needs is freed
  // before the next is asked for.
  at::Tensor step(std::size_t pieces, const std::function<RankLoss(std::size_t piece)>& loss_of,
                  double max_grad_norm);

  NamedTensors state() const { return optimizer_.state(); }

 private:
  double average_one(const RankLoss& loss, std::vector<at::Tensor>& all);
  double average_pieces(std::size_t pieces, const std::function<RankLoss(std::size_t)>& loss_of,
                        std::vector<at::Tensor>& all);

  Ranks& ranks_;
  Optimizer optimizer_;
  std::unique_ptr<OverlappedAverage> overlapped_;  // where sums take long
};

// ActorCritic::observe() of all ranks' windows.
void observe_together(Ranks& ranks, ActorCritic& agent, const Samples& samples);

}  // namespace shoal
