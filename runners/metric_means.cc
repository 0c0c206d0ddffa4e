#include "runners/metric_means.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <string_view>

namespace shoal {

namespace {

// Numbers since the start: a mean of them means nothing.
bool is_total(std::string_view name) {
  return name == "dropped_rollouts" || name == "restarts" || name == "replay_ratio";
}

}  // namespace

void MetricMeans::add(const Metrics& metrics) {
  for (const auto& [name, value] : metrics) {
    auto found = std::ranges::find(sums_, name, &Sum::name);
    if (found == sums_.end()) found = sums_.insert(sums_.end(), Sum{.name = name});
    const bool replaces = is_total(name);
    found->sum = replaces ? value : found->sum + value;
    found->count = replaces ? 1 : found->count + 1;
  }
}

Metrics MetricMeans::means() const {
  Metrics means;
  for (const auto& [name, sum, count] : sums_) means.emplace_back(name, sum / count);
  return means;
}

NamedTensors MetricMeans::save() const {
  NamedTensors all;
  for (const auto& [name, sum, count] : sums_) all.add(name, at::tensor({sum, count}, at::kDouble));
  return all;
}

void MetricMeans::restore(const NamedTensors& saved) {
  sums_.clear();
  for (const auto& [name, both] : saved)
    sums_.push_back({name, both[0].item<double>(), both[1].item<double>()});
}

}  // namespace shoal
