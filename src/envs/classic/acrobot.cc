#include "src/envs/classic/acrobot.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shoal/envs/classic_control.h"
#include "src/envs/classic/drawing.h"

namespace shoal {
namespace {

using std::numbers::pi;

constexpr const char* kId = "Acrobot-v1";
constexpr double kGravity = 9.8, kTau = 0.2;  // seconds per step
// Both links are equal; the centre of mass is in the middle.
constexpr double kLength = 1, kCentre = 0.5, kMass = 1, kInertia = 1;
constexpr double kMaxVelocity1 = 4 * pi, kMaxVelocity2 = 9 * pi;

// The time derivative of the state.
Acrobot::State derivative(const Acrobot::State& state, double torque) {
  const auto& [angle1, angle2, velocity1, velocity2] = state;
  const double cosine = std::cos(angle2), sine = std::sin(angle2);
  const double d1 =
      kMass * kCentre * kCentre +
      kMass * (kLength * kLength + kCentre * kCentre + 2 * kLength * kCentre * cosine) +
      2 * kInertia;
  const double d2 = kMass * (kCentre * kCentre + kLength * kCentre * cosine) + kInertia;
  const double phi2 = kMass * kCentre * kGravity * std::cos(angle1 + angle2 - pi / 2);
  const double phi1 = -kMass * kLength * kCentre * velocity2 * velocity2 * sine -
                      2 * kMass * kLength * kCentre * velocity2 * velocity1 * sine +
                      (kMass * kCentre + kMass * kLength) * kGravity * std::cos(angle1 - pi / 2) +
                      phi2;
  const double acceleration2 =
      (torque + d2 / d1 * phi1 - kMass * kLength * kCentre * velocity1 * velocity1 * sine - phi2) /
      (kMass * kCentre * kCentre + kInertia - d2 * d2 / d1);
  const double acceleration1 = -(d2 * acceleration2 + phi1) / d1;
  return {velocity1, velocity2, acceleration1, acceleration2};
}

Acrobot::State moved(Acrobot::State state, const Acrobot::State& change, double seconds) {
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += seconds * change[i];
  return state;
}

// One step of the classical Runge-Kutta method.
Acrobot::State integrate(const Acrobot::State& state, double torque) {
  const auto k1 = derivative(state, torque);
  const auto k2 = derivative(moved(state, k1, kTau / 2), torque);
  const auto k3 = derivative(moved(state, k2, kTau / 2), torque);
  const auto k4 = derivative(moved(state, k3, kTau), torque);
  Acrobot::State next;
  for (std::size_t i = 0; i < next.size(); ++i)
    next[i] = state[i] + kTau / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
  return next;
}

double wrapped(double angle) {
  while (angle > pi) angle -= 2 * pi;
  while (angle < -pi) angle += 2 * pi;
  return angle;
}

}  // namespace

EnvSpec Acrobot::spec() {
  return {
      .id = kId,
      .observation =
          ArraySpec{
              .dtype = DType::kFloat32, .shape = {6}, .low = -kMaxVelocity2, .high = kMaxVelocity2},
      .action = ActionSpec::discrete(3),
      .fps = 15};
}

Acrobot::State Acrobot::start(Rng& rng) {
  State state;
  for (double& x : state) x = rng.uniform(-0.1, 0.1);
  return state;
}

Outcome Acrobot::advance(State& state, ArraysIn action) {
  const auto torque = static_cast<double>(choice_of(action, 3, kId) - 1);
  state = integrate(state, torque);
  auto& [angle1, angle2, velocity1, velocity2] = state;
  angle1 = wrapped(angle1);
  angle2 = wrapped(angle2);
  velocity1 = std::clamp(velocity1, -kMaxVelocity1, kMaxVelocity1);
  velocity2 = std::clamp(velocity2, -kMaxVelocity2, kMaxVelocity2);
  const bool up = -std::cos(angle1) - std::cos(angle2 + angle1) > 1;
  return {.reward = up ? 0.0 : -1.0, .terminated = up};
}

void Acrobot::observe(const State& state, float* observation) {
  const double numbers[] = {std::cos(state[0]), std::sin(state[0]), std::cos(state[1]),
                            std::sin(state[1]), state[2],           state[3]};
  for (const double x : numbers) *observation++ = static_cast<float>(x);
}

void Acrobot::render(const State& state, Image& image) {
  constexpr double kPixels = 500 / 4.4;
  Drawing drawing(image, {.height = 500, .width = 500, .scale = kPixels, .origin = {250, 250}});
  const Drawing::Point elbow = placed({0, -kLength}, state[0], {0, 0}),
                       hand = placed({0, -kLength}, state[0] + state[1], elbow);
  drawing.line({-3, 1}, {3, 1}, 1 / kPixels, Drawing::kBlack);  // the goal: the tip must rise above
                                                                // it
  drawing.line({0, 0}, elbow, 0.2, {0, 204, 204});
  drawing.line(elbow, hand, 0.2, {0, 204, 204});
  drawing.disc({0, 0}, 0.1, {204, 204, 0});
  drawing.disc(elbow, 0.1, {204, 204, 0});
}

EnvFactory make_acrobot(int time_limit) { return make_classic_control<Acrobot>(time_limit); }

}  // namespace shoal
