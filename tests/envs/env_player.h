#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// The memory of an environment with one observation, one action of one number and any infos.
class EnvPlayer {
 public:
  explicit EnvPlayer(const EnvFactory& factory, std::uint64_t seed = 0)
      : env(factory({.seed = seed})), observation(env->spec().observation[0].bytes()) {
    for (const auto& info : env->spec().info) infos_.emplace_back(info.array.bytes());
    for (auto& info : infos_) info_.push_back(info.data());
    observation_ = observation.data();
  }
  EnvPlayer(const EnvPlayer&) = delete;
  EnvPlayer& operator=(const EnvPlayer&) = delete;

  void reset(std::optional<std::uint64_t> seed = {}) { env->reset(seed, out()); }
  StepResult step(std::int64_t action) { return step_with(action); }
  StepResult push(float force) { return step_with(force); }
  std::int64_t actions() const { return env->spec().action[0].choices[0]; }

  // The first element of the latest observation.
  template <class T>
  T info(std::size_t i) const {
    return *reinterpret_cast<const T*>(infos_[i].data());
  }
  template <class T>
  T observed() const {
    return *reinterpret_cast<const T*>(observation.data());
  }

  std::unique_ptr<Env> env;
  std::vector<std::byte> observation;

 private:
  template <class Action>
  StepResult step_with(const Action& action) {
    std::memcpy(action_.data(), &action, sizeof action);
    const std::byte* bytes = action_.data();
    return env->step(ArraysIn({&bytes, 1}), out());
  }
  StepOut out() { return {.observation = ArraysOut({&observation_, 1}), .info = ArraysOut(info_)}; }

  alignas(8) std::array<std::byte, 8> action_{};
  std::byte* observation_ = nullptr;
  std::vector<std::vector<std::byte>> infos_;
  std::vector<std::byte*> info_;
};

// The random numbers from which tests/oracles/atari.py draws actions.
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
