#pragma once

#include <array>

#include "shoal/envs/env.h"
#include "src/envs/classic/classic_control.h"

namespace shoal {

// Sutton, "Generalization in reinforcement learning: successful examples using sparse coarse
// coding", 1996, with the dynamics of Sutton and Barto's book.
struct Acrobot {
  using State = std::array<double, 4>;  // both angles (0: hanging) and their velocities
  static EnvSpec spec();
  static State start(Rng& rng);
  static Outcome advance(State& state, ArraysIn action);
  static void observe(const State& state, float* observation);
  static void render(const State& state, Image& image);
};

}  // namespace shoal
