#include "algos/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "algos/adam.h"
#include "src/compute/accelerator.h"
#include "src/core/divide_up.h"

namespace shoal {

namespace {

// Several partial sums, so that the compiler can vectorize.
double sum_of_squares(const float* x, std::int64_t n) {
  constexpr std::int64_t kSums = 16;
  std::array<float, kSums> sums{};
  double total = 0;
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::size_t k = 0; k < kSums; ++k) {
      const float value = x[i + static_cast<std::int64_t>(k)];
      sums[k] += value * value;
    }
  }
  for (const float sum : sums) total += sum;
  for (; i < n; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
}

// Leaves out the elements of `list`, unless it is empty, that have no gradient.
void keep_where_defined(const std::vector<at::Tensor>& gradients, std::vector<at::Tensor>& list) {
  if (list.empty()) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) std::swap(list[kept++], list[i]);
  list.resize(kept);
}

bool fits_kernels(const at::Tensor& t) {
  return t.is_cpu() && t.scalar_type() == at::kFloat && t.is_non_overlapping_and_dense();
}

constexpr std::int64_t kClipBlock = 1 << 14;

// Calls act(block, first, last) for blocks of [0, n), which do not depend on the number of threads.
template <class Act>
void for_blocks(std::int64_t n, const Act& act) {
  at::parallel_for(0, divide_up(n, kClipBlock), 2, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) act(i, i * kClipBlock, std::min((i + 1) * kClipBlock, n));
  });
}

at::Tensor clip_in_loops(std::vector<at::Tensor>& gradients, double limit) {
  double total = 0;
  std::vector<double> sums;  // one for each block
  for (const auto& g : gradients) {
    const auto* values = g.const_data_ptr<float>();
    sums.resize(static_cast<std::size_t>(divide_up(g.numel(), kClipBlock)));
    for_blocks(g.numel(), [&](std::int64_t block, std::int64_t first, std::int64_t last) {
      sums[static_cast<std::size_t>(block)] = sum_of_squares(values + first, last - first);
    });
    for (const double sum : sums) total += sum;
  }
  const double norm = std::sqrt(total);
  if (limit > 0 && norm + 1e-6 > limit) {
    const auto scale = static_cast<float>(limit / (norm + 1e-6));
    for (auto& g : gradients) {
      auto* values = g.data_ptr<float>();
      for_blocks(g.numel(), [&](std::int64_t, std::int64_t first, std::int64_t last) {
        for (auto i = first; i < last; ++i) values[i] *= scale;
      });
    }
  }
  return at::scalar_tensor(static_cast<float>(norm), gradients.front().options());
}

}  // namespace

Optimizer::Optimizer(OptimizerKind kind, std::vector<at::Tensor> parameters, double epsilon)
    : kind_(kind),
      parameters_(std::move(parameters)),
      uses_kernel_(is_host(parameters_.front().device()) &&
                   std::ranges::all_of(parameters_, fits_kernels)),
      epsilon_(epsilon) {
  for (const auto& p : parameters_) {
    if (kind == OptimizerKind::kAdam) mean_.push_back(at::zeros_like(p));
    square_.push_back(at::zeros_like(p));
  }
  if (kind == OptimizerKind::kRmsProp) return;
  step_count_ = at::zeros({}, parameters_.front().options().dtype(at::kFloat));
  steps_.assign(parameters_.size(), step_count_);
}

void Optimizer::set_learning_rate(double rate) {
  const auto& like = parameters_.front();
  if (!is_host(like.device())) {
    if (!rate_there_.defined()) rate_there_ = at::zeros({}, like.options().dtype(at::kFloat));
    if (rate != rate_) rate_there_.fill_(rate);
  }
  rate_ = rate;
}

void Optimizer::step(std::vector<at::Tensor> gradients) {
  torch::NoGradGuard no_grad;
  auto parameters = parameters_, mean = mean_, square = square_, steps = steps_;
  for (auto* list : {&parameters, &mean, &square, &steps}) keep_where_defined(gradients, *list);
  keep_where_defined(std::vector(gradients), gradients);
  if (gradients.empty()) return;
  // Fused operations pair elements by memory position, but the gradient of a convolution may be
  // channels-last.
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].strides() != parameters[i].strides())
      gradients[i] = at::empty_like(parameters[i]).copy_(gradients[i]);
  }
  if (kind_ == OptimizerKind::kAdam) {
    step_count_.add_(1);
    if (uses_kernel_) {
      const auto step = make_adam_step(step_count_.item<double>(), rate_, epsilon_);
      for (std::size_t i = 0; i < gradients.size(); ++i)
        apply_adam(step, {parameters[i], mean[i], square[i], gradients[i]});
      return;
    }
    const auto adam = [&](const auto& rate) {
      at::_fused_adam_(parameters, gradients, mean, square, /*max_exp_avg_sqs=*/{}, steps, rate,
                       kAdamBeta1, kAdamBeta2, /*weight_decay=*/0, epsilon_,
                       /*amsgrad=*/false, /*maximize=*/false);
    };
    rate_there_.defined() ? adam(rate_there_) : adam(rate_);
    return;
  }
  constexpr double kDecay = 0.99;
  at::_foreach_mul_(square, kDecay);
  at::_foreach_addcmul_(square, gradients, gradients, 1 - kDecay);
  // Without gradients, mean squares would shrink to denormal numbers, which are slow.
  if (uses_kernel_)
    for (auto& s : square) at::threshold_(s, std::numeric_limits<float>::min(), 0);
  auto root = at::_foreach_sqrt(square);
  at::_foreach_add_(root, epsilon_);
  if (rate_there_.defined()) {
    const auto changes = at::_foreach_div(gradients, root);
    at::_foreach_mul_(changes, rate_there_);
    at::_foreach_sub_(parameters, changes);
  } else {
    at::_foreach_addcdiv_(parameters, gradients, root, -rate_);
  }
}

NamedTensors Optimizer::state() const {
  NamedTensors all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (kind_ == OptimizerKind::kAdam) all.add("optimizer.mean." + std::to_string(i), mean_[i]);
    all.add("optimizer.square." + std::to_string(i), square_[i]);
  }
  if (kind_ == OptimizerKind::kAdam) all.add("optimizer.steps", step_count_);
  return all;
}

at::Tensor clip_gradients(std::vector<at::Tensor>& gradients, double limit) {
  torch::NoGradGuard no_grad;
  if (std::ranges::all_of(gradients, fits_kernels)) return clip_in_loops(gradients, limit);
  auto norm = at::stack(at::_foreach_norm(gradients)).norm();
  if (limit > 0) at::_foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp_max(1));
  return norm;
}

}  // namespace shoal
