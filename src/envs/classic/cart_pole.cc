#include "src/envs/classic/cart_pole.h"

#include <cmath>
#include <numbers>

#include "shoal/envs/classic_control.h"
#include "src/envs/classic/drawing.h"

namespace shoal {
namespace {

constexpr const char* kId = "CartPole-v1";
constexpr double kGravity = 9.8, kCartMass = 1.0, kPoleMass = 0.1,
                 kTotalMass = kCartMass + kPoleMass;
constexpr double kHalfLength = 0.5, kPoleMassLength = kPoleMass * kHalfLength;
constexpr double kForce = 10.0, kTau = 0.02;  // newtons; seconds per step
constexpr double kMaxX = 2.4, kMaxAngle = 12 * 2 * std::numbers::pi / 360;

}  // namespace

EnvSpec CartPole::spec() {
  return {.id = kId,
          .observation = ArraySpec{DType::kFloat32, {4}},
          .action = ActionSpec::discrete(2),
          .fps = 50};
}

CartPole::State CartPole::start(Rng& rng) {
  State state;
  for (double& x : state) x = rng.uniform(-0.05, 0.05);
  return state;
}

Outcome CartPole::advance(State& state, ArraysIn action) {
  const double force = choice_of(action, 2, kId) == 1 ? kForce : -kForce;
  auto& [x, x_dot, theta, theta_dot] = state;
  const double cosine = std::cos(theta), sine = std::sin(theta);
  const double push = (force + kPoleMassLength * (theta_dot * theta_dot) * sine) / kTotalMass;
  const double theta_acc = (kGravity * sine - cosine * push) /
                           (kHalfLength * (4.0 / 3.0 - kPoleMass * (cosine * cosine) / kTotalMass));
  const double x_acc = push - kPoleMassLength * theta_acc * cosine / kTotalMass;
  x += kTau * x_dot;
  x_dot += kTau * x_acc;
  theta += kTau * theta_dot;
  theta_dot += kTau * theta_acc;
  const bool fell = x < -kMaxX || x > kMaxX || theta < -kMaxAngle || theta > kMaxAngle;
  return {.reward = 1, .terminated = fell};
}

void CartPole::observe(const State& state, float* observation) {
  for (std::size_t i = 0; i < state.size(); ++i) observation[i] = static_cast<float>(state[i]);
}

void CartPole::render(const State& state, Image& image) {
  constexpr double kWidth = 2 * kMaxX, kPixels = 600 / kWidth, kCartWidth = 0.4, kCartHeight = 0.24;
  Drawing drawing(image, {.height = 400, .width = 600, .scale = kPixels, .origin = {300, 100}});
  const double x = state[0], top = kCartHeight / 4;  // the pivot of the pole
  drawing.line({-kWidth, 0}, {kWidth, 0}, 2 / kPixels, Drawing::kBlack);
  drawing.line({x - kCartWidth / 2, 0}, {x + kCartWidth / 2, 0}, kCartHeight, Drawing::kBlack);
  drawing.line({x, top}, placed({0, 2 * kHalfLength}, -state[2], {x, top}), 0.08, {202, 152, 101});
  drawing.disc({x, top}, 0.04, {129, 132, 203});
}

EnvFactory make_cart_pole(int time_limit) { return make_classic_control<CartPole>(time_limit); }

}  // namespace shoal
