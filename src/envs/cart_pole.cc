#include "src/envs/cart_pole.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shoal/envs/classic_control.h"

namespace shoal {
namespace {

constexpr const char* kId = "CartPole-v1";
constexpr double kGravity = 9.8, kCartMass = 1.0, kPoleMass = 0.1,
                 kTotalMass = kCartMass + kPoleMass;
constexpr double kHalfLength = 0.5, kPoleMassLength = kPoleMass * kHalfLength;
constexpr double kForce = 10.0, kTau = 0.02;  // newtons; seconds a step
constexpr double kMaxX = 2.4, kMaxAngle = 12 * 2 * std::numbers::pi / 360;

// Draws the part of a convex shape with corners `p` (x, y in pixels, clockwise) that lies in the
// picture.
template <std::size_t N>
void fill(Image& image, const std::array<std::array<double, 2>, N>& p,
          std::array<std::uint8_t, 3> colour) {
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      bool inside = true;
      for (std::size_t i = 0; i < N && inside; ++i) {
        const auto &a = p[i], &b = p[(i + 1) % N];
        inside = (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) >= 0;
      }
      if (inside)
        std::copy(colour.begin(), colour.end(),
                  &image.rgb[3 * (static_cast<std::size_t>(y) * image.width + x)]);
    }
}

}  // namespace

EnvSpec CartPole::spec() {
  return {
      .id = kId, .observation = ArraySpec{DType::kFloat32, {4}}, .action = ActionSpec::discrete(2)};
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
  constexpr int kHeight = 400, kWidth = 600, kTrack = 300;
  constexpr double kScale = kWidth / (2 * kMaxX);
  image.height = kHeight;
  image.width = kWidth;
  image.rgb.assign(3 * kHeight * kWidth, 255);
  const double x = kWidth / 2.0 + state[0] * kScale, top = kTrack - 15;
  const double sine = std::sin(state[2]), cosine = std::cos(state[2]);
  const double length = 2 * kHalfLength * kScale,
               half = 5;  // of the pole: its length and half its thickness
  const double tip_x = x + length * sine, tip_y = top - length * cosine, dx = half * cosine,
               dy = half * sine;
  fill<4>(image, {{{0, kTrack}, {kWidth, kTrack}, {kWidth, kTrack + 1}, {0, kTrack + 1}}},
          {0, 0, 0});
  fill<4>(image, {{{x - 25, top}, {x + 25, top}, {x + 25, kTrack + 15}, {x - 25, kTrack + 15}}},
          {0, 0, 0});
  fill<4>(image,
          {{{tip_x - dx, tip_y - dy},
            {tip_x + dx, tip_y + dy},
            {x + dx, top + dy},
            {x - dx, top - dy}}},
          {202, 152, 101});
}

EnvFactory make_cart_pole(int time_limit) { return make_classic_control<CartPole>(time_limit); }

}  // namespace shoal
