#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Holds the memory of one environment with one observation, one action of one number and at most one
// info.
class EnvPlayer {
 public:
  explicit EnvPlayer(const EnvFactory& factory, std::uint64_t seed = 0)
      : env(factory({.seed = seed})), observation(env->spec().observation[0].bytes()) {}

  void reset(std::optional<std::uint64_t> seed = {}) { env->reset(seed, out()); }
  StepResult step(std::int64_t action) { return step_with(action); }
  StepResult push(float force) { return step_with(force); }
  std::int64_t actions() const { return env->spec().action[0].choices[0]; }

  std::unique_ptr<Env> env;
  std::vector<std::byte> observation;
  float score = -1;

 private:
  template <class Action>
  StepResult step_with(const Action& action) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&action);
    return env->step(ArraysIn({&bytes, 1}), out());
  }
  StepOut out() {
    fields_ = {observation.data(), reinterpret_cast<std::byte*>(&score)};
    return {.observation = ArraysOut({fields_.data(), 1}),
            .info = ArraysOut({fields_.data() + 1, 1})};
  }
  std::array<std::byte*, 2> fields_{};
};

// The numbers that tests/oracles/atari.py draws its actions from.
class OracleActions {
 public:
  std::int64_t next(std::int64_t count) {
    state_ = (state_ * 1103515245 + 12345) % (1LL << 31);
    return (state_ >> 16) % count;
  }

 private:
  std::int64_t state_ = 1;
};

}  // namespace shoal
