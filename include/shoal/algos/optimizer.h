#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/data/samples.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

enum class OptimizerKind : std::uint8_t {
  kAdam,     // Kingma and Ba, arXiv 1412.6980; betas 0.9 and 0.999
  kRmsProp,  // Tieleman and Hinton, 2012; decay 0.99, as in A3C
};
inline constexpr std::pair<const char*, OptimizerKind> kOptimizerNames[] = {
    {"adam", OptimizerKind::kAdam}, {"rmsprop", OptimizerKind::kRmsProp}};
inline const auto& names_of(OptimizerKind) { return kOptimizerNames; }

// One rank's share of a step: means over its own `steps`.
struct RankLoss {
  at::Tensor total;    // [], with gradients; undefined if there are no steps
  at::Tensor metrics;  // [K] float32
  std::int64_t steps = 0;
};

// Optimizes parameters that are equal in all ranks: averages gradients over the ranks, clips their
// global norm and steps. With one rank it is a plain optimizer. All ranks must make the same calls.
class DistributedOptimizer {
 public:
  // parameters: on their device. epsilon: added to the root of the mean square. `ranks` must
  // outlive this.
  DistributedOptimizer(ProcessGroup& ranks, OptimizerKind kind, std::vector<at::Tensor> parameters,
                       double epsilon = 1e-5);
  ~DistributedOptimizer();

  // Applies from the next step on; the rate is 0 before the first call.
  void set_learning_rate(double rate);

  // gradients: one for each parameter, means over this rank's share of a batch; all shares must
  // have the same size. metrics: [K] float32, averaged in the same exchange. max_grad_norm: 0: not
  // clipped. Returns [K + 1]: the mean metrics, and the norm of the gradient before clipping.
  at::Tensor step(std::vector<at::Tensor> gradients, const at::Tensor& metrics,
                  double max_grad_norm);
  // The same for shares of unequal size, even empty ones, with the loss of this rank in so many
  // pieces, at least one: the memory of a piece is freed before the next one is computed. Returns
  // an undefined tensor if no rank has any steps. Parameters on which the loss does not depend have
  // gradient 0; those that require no gradient stay as they are.
  at::Tensor step(std::size_t pieces, const std::function<RankLoss(std::size_t piece)>& loss_of,
                  double max_grad_norm);

  // For Algo::state(): moments and the number of steps, by name. Not copies.
  NamedTensors state() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal
