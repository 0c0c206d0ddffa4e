#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "shoal/algos/algo.h"

namespace shoal {

// Means over the minibatches of one update, kept on the device until the end: a tensor [names] for
// each.
class Totals {
 public:
  explicit Totals(std::vector<std::string> names) : names_(std::move(names)) {}
  void add(const at::Tensor& row) {  // undefined: of nothing
    if (!row.defined()) return;
    sum_ = sum_.defined() ? sum_.add_(row) : row;
    ++count_;
  }
  Metrics means() const {
    Metrics out;
    if (count_ == 0) return out;
    const auto mean = (sum_ / count_).to(at::kCPU, at::kDouble);
    for (std::size_t i = 0; i < names_.size(); ++i)
      out.emplace_back(names_[i], mean.const_data_ptr<double>()[i]);
    return out;
  }

 private:
  std::vector<std::string> names_;
  at::Tensor sum_;
  int count_ = 0;
};

}  // namespace shoal
