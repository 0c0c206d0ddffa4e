#include "src/agents/pg/head.h"

#include <cmath>
#include <numbers>

#include "src/compute/accelerator.h"

namespace shoal {

at::Tensor Noise::uniform(const Block& block, at::Device device) const {
  if (key_.env_tick.defined()) return uniform_there(block);
  auto out = at::empty({block.rows, block.n}, at::kFloat);
  auto* to = out.data_ptr<float>();
  for (std::int64_t row = 0; row < block.rows; ++row)
    for (std::int64_t i = 0; i < block.n; ++i) *to++ = uniform(row, block.first + i);
  return out.to(device);
}

at::Tensor Noise::uniform_there(const Block& block) const {
  const auto& keys = key_.env_tick;
  auto out = at::empty({block.rows, block.n}, keys.options().dtype(at::kFloat));
  const auto& on = *accelerator(keys.device());
  const c10::DeviceGuard guard(keys.device());
  require_started("fill_noise",
                  on.kernels().fill_noise({.seed = key_.seed,
                                           .env_tick = keys.const_data_ptr<std::int64_t>(),
                                           .first_number = block.first,
                                           .out = out.data_ptr<float>(),
                                           .N = block.rows,
                                           .numbers = block.n},
                                          on.stream()));
  return out;
}

// Box and Muller, "A note on the generation of random normal deviates", 1958.
float Noise::normal(std::int64_t row, std::int64_t number) const {
  const float radius = std::sqrt(-2 * std::log(1 - uniform(row, number)));
  return radius * std::cos(2 * std::numbers::pi_v<float> * uniform(row, number + 1));
}

at::Tensor Noise::normal(const Block& block, at::Device device) const {
  const auto [rows, first, n] = block;
  if (key_.env_tick.defined()) {
    return normal_of(uniform_there({rows, first, 2 * n}).view({rows, n, 2}));
  }
  auto out = at::empty({rows, n}, at::kFloat);
  auto* to = out.data_ptr<float>();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) *to++ = normal(row, first + 2 * i);
  return out.to(device);
}

at::Tensor normal_of(const at::Tensor& uniform) {
  const auto radius = (1 - uniform.select(2, 0)).log_().mul_(-2).sqrt_();
  return radius.mul_((uniform.select(2, 1) * (2 * std::numbers::pi)).cos_());
}

at::Tensor Noise::envs(std::int64_t rows, at::Device device) const {
  if (key_.env_tick.defined()) return key_.env_tick.select(1, 0);
  auto out = at::empty({rows}, at::kLong);
  for (std::int64_t row = 0; row < rows; ++row)
    out.data_ptr<std::int64_t>()[row] = key_.row(row).env;
  return out.to(device);
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
