#pragma once

#include <array>

#include "shoal/envs/env.h"

namespace shoal {

// A pole on a cart that is pushed left (0) or right (1), with the physics of Gymnasium's
// CartPole-v1, in float64. Observation: float32 [4]: position, velocity, angle, angular velocity.
// The reward is 1 a step.
class CartPole : public Env {
 public:
  using State = std::array<double, 4>;

  // The episode is truncated after time_limit steps. Throws Error unless time_limit > 0.
  CartPole(const EnvContext& context, int time_limit);

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override;
  // Throws Error for an action that is neither 0 nor 1.
  StepResult step(ArraysIn action, StepOut out) override;
  bool save(std::vector<std::byte>& bytes) const override;
  bool load(std::span<const std::byte> bytes) override;
  bool render(Image& image) override;

  const State& state() const { return state_; }
  // Continues from a state of the caller's choice; the step count stays.
  void set_state(const State& state) { state_ = state; }

 private:
  EnvSpec spec_;
  Rng rng_;
  State state_{};
  std::int64_t steps_ = 0, time_limit_;
};

EnvFactory make_cart_pole(int time_limit = 500);

}  // namespace shoal
