#pragma once

#include <array>

#include "shoal/envs/env.h"
#include "src/envs/classic/classic_control.h"

namespace shoal {

// Moore, "Efficient memory-based learning for robot control", 1990.
struct MountainCar {
  using State = std::array<double, 2>;  // position, velocity
  static EnvSpec spec();
  static State start(Rng& rng);
  static Outcome advance(State& state, ArraysIn action);
  static void observe(const State& state, float* observation);
  static void render(const State& state, Image& image);
};

// The state is rounded to float32 after every step, as in Gymnasium.
struct MountainCarContinuous : MountainCar {
  static EnvSpec spec();
  static Outcome advance(State& state, ArraysIn action);
  static void render(const State& state, Image& image);
};

}  // namespace shoal
