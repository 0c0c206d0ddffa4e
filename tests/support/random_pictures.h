#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "shoal/core/rng.h"
#include "shoal/envs/env.h"

namespace shoal::testing {

// Random images in stacks of four; the reward is the action.
class RandomPictures : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (seed) rng_ = Rng(*seed);
    step_ = 0;
    write(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    write(out);
    return {.reward = static_cast<float>(*action.as<std::int64_t>()), .terminated = ++step_ == 5};
  }

 private:
  void write(StepOut out) {
    for (int i = 0; i < 84 * 84; ++i)
      out.observation.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(rng_.integer(0, 256));
  }

  EnvSpec spec_{.id = "RandomPictures",
                .observation = ArraySpec{.dtype = DType::kUInt8, .shape = {84, 84}, .stack = 4},
                .action = ActionSpec::discrete(3)};
  Rng rng_;
  std::int64_t step_ = 0;
};

inline EnvFactory make_random_pictures() {
  return [](const EnvContext&) { return std::make_unique<RandomPictures>(); };
}

}  // namespace shoal::testing
