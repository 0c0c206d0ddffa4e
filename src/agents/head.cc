#include "src/agents/head.h"

#include <cmath>
#include <numbers>

namespace shoal {

at::Tensor Noise::uniform(std::int64_t rows, std::int64_t first, std::int64_t n) const {
  auto out = at::empty({rows, n}, at::kFloat);
  auto* to = out.data_ptr<float>();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) *to++ = uniform(row, first + i);
  return out;
}

// Box and Muller, "A note on the generation of random normal deviates", 1958.
float Noise::normal(std::int64_t row, std::int64_t number) const {
  const float radius = std::sqrt(-2 * std::log(1 - uniform(row, number)));
  return radius * std::cos(2 * std::numbers::pi_v<float> * uniform(row, number + 1));
}

at::Tensor Noise::normal(std::int64_t rows, std::int64_t first, std::int64_t n) const {
  auto out = at::empty({rows, n}, at::kFloat);
  auto* to = out.data_ptr<float>();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) *to++ = normal(row, first + 2 * i);
  return out;
}

std::shared_ptr<Head> make_head(const ActionSpec& spec, const ActorCriticOptions& options) {
  switch (spec.kind) {
    case ActionSpec::Kind::kDiscrete:
      return make_categorical_head(spec.choices, Stored::kNumber);
    case ActionSpec::Kind::kMultiDiscrete:
      return make_categorical_head(spec.choices, Stored::kNumbers);
    case ActionSpec::Kind::kMultiBinary:
      return make_categorical_head(
          std::vector<std::int64_t>(static_cast<std::size_t>(spec.dims), 2), Stored::kBits);
    case ActionSpec::Kind::kBox:
      return make_gaussian_head(spec, options);
  }
  __builtin_unreachable();
}

}  // namespace shoal
