#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "shoal/algos/algo.h"
#include "shoal/core/finite.h"

namespace shoal {

// Throws DataError for a metric that is NaN or infinite.
inline void require_finite(const std::string& name, double number, const Progress& progress) {
  if (std::isfinite(number)) return;
  throw DataError(fmt::format(
      "{} of the update after {} steps is {}, expected a finite number: the agent has diverged; "
      "lower the learning rate, or scale the rewards",
      name, progress.steps, name_not_finite(number)));
}

// Means of metrics over the minibatches of one update, accumulated on the device. Throws DataError
// for a NaN or infinite metric: on the CPU in add(), on a GPU in check() and means().
class LossMeans {
 public:
  LossMeans(std::vector<std::string> names, const Progress& progress)
      : names_(std::move(names)), progress_(progress) {}
  void add(const at::Tensor& row) {  // [names]; undefined: ignored
    if (!row.defined()) return;
    if (row.is_cpu()) check(row);
    sum_ = sum_.defined() ? sum_.add_(row) : row;
    ++count_;
  }
  void check() const {
    if (sum_.defined()) check(sum_);
  }
  Metrics means() const {
    Metrics out;
    if (count_ == 0) return out;
    const auto mean = (sum_ / count_).to(at::kCPU, at::kDouble);
    check(mean);
    for (std::size_t i = 0; i < names_.size(); ++i)
      out.emplace_back(names_[i], mean.const_data_ptr<double>()[i]);
    return out;
  }

 private:
  void check(const at::Tensor& row) const {
    if (row.is_cpu() && row.scalar_type() == at::kFloat && row.is_contiguous() &&
        all_finite(row.const_data_ptr<float>(), row.numel()))
      return;
    const auto numbers = row.to(at::kCPU, at::kDouble);
    for (std::size_t i = 0; i < names_.size(); ++i)
      require_finite(names_[i], numbers.const_data_ptr<double>()[i], progress_);
  }

  std::vector<std::string> names_;
  Progress progress_;
  at::Tensor sum_;
  int count_ = 0;
};

}  // namespace shoal
