#pragma once

#include <memory>
#include <optional>

#include "shoal/core/rng.h"
#include "shoal/envs/env.h"

namespace shoal::testing {

// A picture with a bright column in one half, and a switch. Discrete: one of four actions names
// both and gets 1; one field alone earns 0.5. Real: two numbers, which are to be -1 or 1, and minus
// half of their squared distances; one field alone earns -0.5. Episodes have four steps.
class PictureAndSwitch : public Env {
 public:
  explicit PictureAndSwitch(bool real)
      : real_(real),
        spec_{.id = "PictureAndSwitch",
              .observation = {{"picture", ArraySpec{.dtype = DType::kUInt8,
                                                    .shape = {kSize, kSize},
                                                    .low = 0,
                                                    .high = 255}},
                              {"switch", ArraySpec{.dtype = DType::kInt64, .low = 0, .high = 1}}},
              .action = real ? ActionSpec::box(2, -1, 1) : ActionSpec::discrete(4)} {}

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (seed) rng_ = Rng(*seed);
    step_ = 0;
    show(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    float reward = 0;
    if (real_) {
      for (int i = 0; i < 2; ++i) {
        const float off = action.as<float>()[i] - ((wanted_ >> i & 1) != 0 ? 1.0F : -1.0F);
        reward -= off * off / 2;
      }
    } else {
      reward = *action.as<std::int64_t>() == wanted_ ? 1 : 0;
    }
    show(out);
    return {.reward = reward, .terminated = ++step_ == 4};
  }

 private:
  static constexpr std::int64_t kSize = 8;

  void show(StepOut out) {
    const auto column = rng_.integer(0, kSize);
    const auto on = rng_.integer(0, 2);
    wanted_ = 2 * on + (column >= kSize / 2 ? 1 : 0);
    auto* pixel = out.observation.as<std::uint8_t>(0);
    for (std::int64_t i = 0; i < kSize * kSize; ++i) pixel[i] = i % kSize == column ? 255 : 20;
    *out.observation.as<std::int64_t>(1) = on;
  }

  bool real_;
  EnvSpec spec_;
  Rng rng_;
  std::int64_t wanted_ = 0, step_ = 0;
};

inline EnvFactory make_picture_and_switch(bool real = false) {
  return [real](const EnvContext&) { return std::make_unique<PictureAndSwitch>(real); };
}

}  // namespace shoal::testing
