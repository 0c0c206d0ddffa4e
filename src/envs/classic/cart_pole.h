#pragma once

#include <array>

#include "shoal/envs/env.h"
#include "src/envs/classic/classic_control.h"

namespace shoal {

// Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning
// control problems", 1983.
struct CartPole {
  using State = std::array<double, 4>;  // position, velocity, angle, angular velocity
  static EnvSpec spec();
  static State start(Rng& rng);
  static Outcome advance(State& state, ArraysIn action);
  static void observe(const State& state, float* observation);
  static void render(const State& state, Image& image);
};

}  // namespace shoal
