#include "src/envs/classic/pendulum.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shoal/envs/classic_control.h"
#include "src/envs/classic/drawing.h"

namespace shoal {
namespace {

using std::numbers::pi;

constexpr double kGravity = 10, kTau = 0.05;  // mass 1, length 1; seconds per step
constexpr double kMaxSpeed = 8;
constexpr float kMaxTorque = 2;

double wrapped(double angle) {  // to [-pi, pi)
  const double turned = std::fmod(angle + pi, 2 * pi);
  return (turned < 0 ? turned + 2 * pi : turned) - pi;
}

}  // namespace

EnvSpec Pendulum::spec() {
  return {
      .id = "Pendulum-v1",
      .observation =
          ArraySpec{.dtype = DType::kFloat32, .shape = {3}, .low = -kMaxSpeed, .high = kMaxSpeed},
      .action = ActionSpec::box(1, -kMaxTorque, kMaxTorque)};
}

Pendulum::State Pendulum::start(Rng& rng) {
  const double angle = rng.uniform(-pi, pi);
  return {angle, rng.uniform(-1, 1)};
}

Outcome Pendulum::advance(State& state, ArraysIn action) {
  auto& [angle, velocity] = state;
  const float torque = std::clamp(*action.as<float>(), -kMaxTorque, kMaxTorque);
  const double off = wrapped(angle);
  const double cost = off * off + 0.1 * velocity * velocity + 0.001F * (torque * torque);
  const double acceleration = 1.5 * kGravity * std::sin(angle) + 3 * torque;  // the torque term is
                                                                              // computed in float32
  velocity = std::clamp(velocity + acceleration * kTau, -kMaxSpeed, kMaxSpeed);
  angle += velocity * kTau;
  return {.reward = -cost, .terminated = false};
}

void Pendulum::observe(const State& state, float* observation) {
  observation[0] = static_cast<float>(std::cos(state[0]));
  observation[1] = static_cast<float>(std::sin(state[0]));
  observation[2] = static_cast<float>(state[1]);
}

void Pendulum::render(const State& state, Image& image) {
  Drawing drawing(image, {.height = 500, .width = 500, .scale = 500 / 4.4, .origin = {250, 250}});
  const Drawing::Point tip = placed({0, 1}, state[0], {0, 0});
  constexpr Drawing::Colour kRod{204, 77, 77};
  drawing.line({0, 0}, tip, 0.2, kRod);
  drawing.disc({0, 0}, 0.1, kRod);
  drawing.disc(tip, 0.1, kRod);
  drawing.disc({0, 0}, 0.05, Drawing::kBlack);
}

EnvFactory make_pendulum(int time_limit) { return make_classic_control<Pendulum>(time_limit); }

}  // namespace shoal
