#pragma once

#include <torch/torch.h>

#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// Adam (Kingma and Ba, arXiv 1412.6980) over all parameters in one fused operation.
class Adam {
 public:
  Adam(std::vector<at::Tensor> parameters, double epsilon)
      : parameters_(std::move(parameters)), epsilon_(epsilon) {
    for (const auto& p : parameters_) {
      mean_.push_back(at::zeros_like(p));
      square_.push_back(at::zeros_like(p));
    }
    step_count_ = at::zeros({}, parameters_.front().options().dtype(at::kFloat));
    steps_.assign(parameters_.size(), step_count_);
  }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  // Changes the parameters against `gradients`, one for each.
  void step(std::vector<at::Tensor> gradients, double learning_rate) {
    torch::NoGradGuard no_grad;
    // The fused operation pairs elements by their place in memory, and the gradient of a
    // convolution may come channels-last.
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].strides() != parameters_[i].strides())
        gradients[i] = at::empty_like(parameters_[i]).copy_(gradients[i]);
    }
    step_count_.add_(1);
    at::_fused_adam_(
        parameters_, gradients, mean_, square_, /*max_exp_avg_sqs=*/{}, steps_, learning_rate,
        /*beta1=*/0.9, /*beta2=*/0.999, /*weight_decay=*/0, epsilon_, /*amsgrad=*/false,
        /*maximize=*/false);
  }

  // The moments and the step count, by name; the tensors themselves.
  NamedTensors state() const {
    NamedTensors all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      all.add("adam.mean." + std::to_string(i), mean_[i]);
      all.add("adam.square." + std::to_string(i), square_[i]);
    }
    all.add("adam.steps", step_count_);
    return all;
  }

 private:
  std::vector<at::Tensor> parameters_, mean_, square_;
  at::Tensor step_count_;
  std::vector<at::Tensor> steps_;  // step_count_, once for each parameter
  double epsilon_;
};

// Scales the gradients in place so that their common norm is at most `limit` (0: no limit). Returns
// the norm before.
at::Tensor clip_gradients(std::vector<at::Tensor>& gradients, double limit);

}  // namespace shoal
