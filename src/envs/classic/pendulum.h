#pragma once

#include <array>

#include "shoal/envs/env.h"
#include "src/envs/classic/classic_control.h"

namespace shoal {

struct Pendulum {
  using State = std::array<double, 2>;  // angle (0: upright), angular velocity
  static EnvSpec spec();
  static State start(Rng& rng);
  static Outcome advance(State& state, ArraysIn action);
  static void observe(const State& state, float* observation);
  static void render(const State& state, Image& image);
};

}  // namespace shoal
