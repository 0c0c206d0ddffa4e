#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shoal/algos/optimizer.h"
#include "shoal/data/samples.h"

namespace shoal {

// Steps all parameters at once, in few operations.
class Optimizer {
 public:
  // epsilon: added to the root of the mean square.
  Optimizer(OptimizerKind kind, std::vector<at::Tensor> parameters, double epsilon);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  // For the steps from now on. On a device it is kept there, so that a recorded step follows it.
  void set_learning_rate(double rate);
  // Changes the parameters against `gradients`, one for each.
  void step(std::vector<at::Tensor> gradients);

  // What it remembers of the gradients, by name; the tensors themselves.
  NamedTensors state() const;

 private:
  OptimizerKind kind_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> mean_, square_;  // moving averages of gradients (Adam) and their squares
  at::Tensor step_count_;                  // Adam
  std::vector<at::Tensor> steps_;          // step_count_, once for each parameter
  double epsilon_;
  double rate_ = 0;
  at::Tensor rate_there_;  // [] float32, on a device; undefined on the CPU
};

// Scales the gradients in place so that their common norm is at most `limit` (0: no limit). Returns
// the norm before.
at::Tensor clip_gradients(std::vector<at::Tensor>& gradients, double limit);

}  // namespace shoal
