#pragma once

#include <torch/torch.h>

#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// Adam (Kingma and Ba, arXiv 1412.6980) over all parameters in one fused operation.
class Adam {
 public:
  Adam(std::vector<at::Tensor> parameters, double epsilon) : parameters_(std::move(parameters)), epsilon_(epsilon) {
    for (const auto& p : parameters_) {
      mean_.push_back(at::zeros_like(p));
      square_.push_back(at::zeros_like(p));
      steps_.push_back(at::zeros({}, p.options().dtype(at::kFloat)));
    }
  }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  // Changes the parameters against `gradients`, one for each.
  void step(const std::vector<at::Tensor>& gradients, double learning_rate) {
    torch::NoGradGuard no_grad;
    at::_foreach_add_(steps_, 1);
    at::_fused_adam_(parameters_, gradients, mean_, square_, /*max_exp_avg_sqs=*/{}, steps_, learning_rate,
                     /*beta1=*/0.9, /*beta2=*/0.999, /*weight_decay=*/0, epsilon_, /*amsgrad=*/false,
                     /*maximize=*/false);
  }

  // The moments and the step count, by name; the tensors themselves.
  NamedTensors state() const {
    NamedTensors all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      all.add("adam.mean." + std::to_string(i), mean_[i]);
      all.add("adam.square." + std::to_string(i), square_[i]);
      all.add("adam.steps." + std::to_string(i), steps_[i]);
    }
    return all;
  }

 private:
  std::vector<at::Tensor> parameters_, mean_, square_, steps_;
  double epsilon_;
};

// Scales the gradients in place so that their common norm is at most `limit` (0: no limit). Returns the norm before.
inline at::Tensor clip_gradients(std::vector<at::Tensor>& gradients, double limit) {
  torch::NoGradGuard no_grad;
  const auto norm = at::stack(at::_foreach_norm(gradients)).norm();
  if (limit > 0) at::_foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp_max(1));
  return norm;
}

}  // namespace shoal
