#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/envs/env.h"

namespace shoal {

// The result of one step of the physics.
struct Outcome {
  double reward = 0;
  bool terminated = false;
};

// An environment for the physics of a task, a struct of pure functions:
//
//   using State = std::array<double, N>;
//   static EnvSpec spec();
//   static State start(Rng& rng);
//   static Outcome advance(State& state, ArraysIn action);
//   static void observe(const State& state, float* observation);
//   static void render(const State& state, Image& image);      // optional
template <class Physics>
class ClassicControl : public Env {
 public:
  using State = typename Physics::State;

  ClassicControl(const EnvContext& context, int time_limit)
      : spec_(Physics::spec()), rng_(context.seed), time_limit_(time_limit) {
    require(time_limit > 0, "{}: the time limit is {}; expected at least 1 step", spec_.id,
            time_limit);
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (seed) rng_ = Rng(*seed);
    state_ = Physics::start(rng_);
    steps_ = 0;
    Physics::observe(state_, out.observation.as<float>());
  }

  StepResult step(ArraysIn action, StepOut out) override {
    const Outcome outcome = Physics::advance(state_, action);
    Physics::observe(state_, out.observation.as<float>());
    return {.reward = static_cast<float>(outcome.reward),
            .terminated = outcome.terminated,
            .truncated = ++steps_ >= time_limit_ && !outcome.terminated};
  }

  bool save(std::vector<std::byte>& bytes) const override {
    const Saved saved{rng_.key(), rng_.counter(), state_, steps_};
    bytes.resize(sizeof saved);
    std::memcpy(bytes.data(), &saved, sizeof saved);
    return true;
  }

  bool load(std::span<const std::byte> bytes) override {
    Saved saved;
    require(bytes.size() == sizeof saved, "{}: expected a saved state of {} bytes, found {}",
            spec_.id, sizeof saved, bytes.size());
    std::memcpy(&saved, bytes.data(), sizeof saved);
    rng_ = Rng(saved.rng_key, saved.rng_counter);
    state_ = saved.state;
    steps_ = saved.steps;
    return true;
  }

  bool render(Image& image) override {
    if constexpr (requires { Physics::render(state_, image); }) {
      Physics::render(state_, image);
      return true;
    }
    return false;
  }

  const State& state() const { return state_; }
  // Continues from the given state; the step count is unchanged.
  void set_state(const State& state) { state_ = state; }

 private:
  struct Saved {
    std::uint64_t rng_key, rng_counter;
    State state;
    std::int64_t steps;
  };

  EnvSpec spec_;
  Rng rng_;
  State state_{};
  std::int64_t steps_ = 0, time_limit_;
};

// Checks the time limit before any worker is forked.
template <class Physics>
EnvFactory make_classic_control(int time_limit) {
  const ClassicControl<Physics> checked({}, time_limit);
  return [time_limit](const EnvContext& context) {
    return std::make_unique<ClassicControl<Physics>>(context, time_limit);
  };
}

// The one discrete action of `action`, which must be below `choices`.
inline std::int64_t choice_of(ArraysIn action, std::int64_t choices, const char* id) {
  const std::int64_t choice = *action.as<std::int64_t>();
  require(choice >= 0 && choice < choices, "{}: action {}, expected 0 to {}", id, choice,
          choices - 1);
  return choice;
}

}  // namespace shoal
