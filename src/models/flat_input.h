#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "shoal/core/spec.h"
#include "shoal/data/samples.h"

namespace shoal {

// The values of a categorical number (int64 with few between its bounds); 0: not categorical.
inline std::int64_t categories(const ArraySpec& spec) {
  constexpr double kMost = 1024;
  const double n = spec.high - spec.low + 1;
  return spec.dtype == DType::kInt64 && n <= kMost ? static_cast<std::int64_t>(n) : 0;
}

// Converts an observation to the input of the first layer: all its fields, flattened and
// concatenated. Categorical numbers are one-hot encoded.
class FlatInput {
 public:
  explicit FlatInput(const NamedSpecs& observation) {
    for (const auto& [name, spec] : observation) {
      fields_.push_back({spec.low, categories(spec)});
      width_ += spec.count() * spec.stack * std::max<std::int64_t>(fields_.back().choices, 1);
    }
  }
  std::int64_t width() const { return width_; }

  // [N, width] float32
  at::Tensor operator()(const Observations& observation) const {
    if (observation.size() == 1) return flat(observation[0], fields_[0]);
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      parts.push_back(flat(observation[i], fields_[i]));
    return at::cat(parts, 1);
  }

 private:
  struct Field {
    double low;
    std::int64_t choices;  // 0: not categorical
  };
  static at::Tensor flat(const Observed& o, const Field& field) {
    auto x = o.dense();
    if (field.choices > 0) {
      const auto first = static_cast<std::int64_t>(field.low);
      x = x.unsqueeze(-1).eq(at::arange(first, first + field.choices, x.options()));
    }
    x = x.to(at::kFloat);
    return x.dim() == 1 ? x.unsqueeze(1) : x.flatten(1);
  }

  std::vector<Field> fields_;
  std::int64_t width_ = 0;
};

}  // namespace shoal
