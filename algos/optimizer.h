#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shoal/algos/optimizer.h"
#include "shoal/data/samples.h"

namespace shoal {

// Adam or RMSprop over all parameters.
class Optimizer {
 public:
  // epsilon: added to the root of the mean square.
  Optimizer(OptimizerKind kind, std::vector<at::Tensor> parameters, double epsilon);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  // Applies from the next step on. On a GPU the rate is a device tensor, so that a captured step
  // reads the current one.
  void set_learning_rate(double rate);
  // gradients: one for each parameter. Without one, a parameter and its moments stay as they are.
  void step(std::vector<at::Tensor> gradients);

  // Moments and, for Adam, the number of steps, by name. Not copies.
  NamedTensors state() const;

 private:
  OptimizerKind kind_;
  std::vector<at::Tensor> parameters_;
  bool uses_kernel_;                       // all are dense, on the host, and float32
  std::vector<at::Tensor> mean_, square_;  // moving averages of gradients (Adam) and their squares
  at::Tensor step_count_;                  // Adam
  std::vector<at::Tensor> steps_;          // step_count_, once for each parameter
  double epsilon_;
  double rate_ = 0;
  at::Tensor rate_there_;  // [] float32, on the GPU; undefined on the CPU
};

// Scales the gradients in place so that their global norm is at most `limit` (0: no limit). Returns
// the norm before clipping.
at::Tensor clip_gradients(std::vector<at::Tensor>& gradients, double limit);

}  // namespace shoal
