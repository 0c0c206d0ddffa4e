#include "src/replays/priorities.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "shoal/core/error.h"

namespace shoal {

Priorities::Priorities(std::int64_t cells, double alpha) : alpha_(alpha), tree_(cells) {}

// A larger power of a small priority can be 0, so that nothing could be drawn.
void require_alpha(double alpha) {
  require(alpha >= 0 && alpha <= 1, "alpha: found {}, expected 0 to 1", alpha);
}

void Priorities::offer(std::int64_t first, std::span<const bool> can_be_drawn) {
  const double power = std::pow(largest_, alpha_);
  values_.resize(can_be_drawn.size());
  for (std::size_t i = 0; i < can_be_drawn.size(); ++i) values_[i] = can_be_drawn[i] ? power : 0;
  tree_.set_range(first, values_);
}

void Priorities::draw(std::span<std::int64_t> cells, Rng& rng, std::span<double> probability) {
  const auto n = cells.size();
  const double part = tree_.total() / static_cast<double>(n);
  values_.resize(n);
  for (std::size_t i = 0; i < n; ++i) values_[i] = (static_cast<double>(i) + rng.uniform()) * part;
  tree_.find(values_, cells);
  for (std::size_t i = 0; i < n; ++i) probability[i] = tree_[cells[i]] / tree_.total();
}

void importance_weights(std::span<const double> probability, double least, double beta,
                        float* weight) {
  for (const double p : probability)
    *weight++ = std::pow(static_cast<float>(least / p), static_cast<float>(beta));
}

void Priorities::update(const at::Tensor& names, const at::Tensor& priority,
                        std::pair<std::int64_t, std::int64_t> kept) {
  require(names.dim() == 1 && names.sizes() == priority.sizes(),
          "priorities: found shape [{}] for indices of shape [{}], expected equal shapes",
          fmt::join(priority.sizes(), ", "), fmt::join(names.sizes(), ", "));
  const auto all = names.to(at::kCPU, at::kLong).contiguous();
  const auto given = priority.to(at::kCPU, at::kFloat).contiguous();
  const auto* name = all.const_data_ptr<std::int64_t>();
  const auto* value = given.const_data_ptr<float>();
  cells_.clear();
  values_.clear();
  const auto count = static_cast<std::int64_t>(tree_.leaves().size());
  for (std::int64_t i = 0; i < all.size(0); ++i) {
    require(value[i] > 0 && std::isfinite(value[i]),
            "priority {}: found {}, expected a number above 0", i, value[i]);
    if (name[i] < kept.first || name[i] >= kept.second) continue;
    cells_.push_back(name[i] % count);
    values_.push_back(std::pow(value[i], static_cast<float>(alpha_)));
    largest_ = std::max<double>(largest_, value[i]);
  }
  tree_.set(cells_, values_);
}

at::Tensor Priorities::powers() const {
  const auto powers = tree_.leaves();
  return at::from_blob(const_cast<double*>(powers.data()),
                       {static_cast<std::int64_t>(powers.size())}, at::kDouble);
}

void Priorities::restore(const at::Tensor& powers, double largest) {
  const auto cells = tree_.leaves().size();
  require(powers.numel() == static_cast<std::int64_t>(cells) && powers.scalar_type() == at::kDouble,
          "saved replay: found {} cells, expected {}", powers.numel(), cells);
  tree_.set_range(0, {powers.const_data_ptr<double>(), cells});
  largest_ = largest;
}

}  // namespace shoal
