#include "src/envs/classic/mountain_car.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "shoal/envs/classic_control.h"
#include "src/envs/classic/drawing.h"

namespace shoal {
namespace {

constexpr const char *kId = "MountainCar-v0", *kContinuousId = "MountainCarContinuous-v0";
constexpr double kMinPosition = -1.2, kMaxPosition = 0.6, kMaxSpeed = 0.07, kGravity = 0.0025;
constexpr double kForce = 0.001, kGoal = 0.5;  // discrete task
constexpr double kContinuousForce = 0.0015, kContinuousGoal = 0.45F;

EnvSpec make_spec(const char* id, ActionSpec action) {
  return {
      .id = id,
      .observation =
          ArraySpec{
              .dtype = DType::kFloat32, .shape = {2}, .low = kMinPosition, .high = kMaxPosition},
      .action = std::move(action)};
}

// The left end of the valley is an inelastic wall.
void roll(MountainCar::State& state, double push) {
  auto& [position, velocity] = state;
  velocity =
      std::clamp(velocity + (push - kGravity * std::cos(3 * position)), -kMaxSpeed, kMaxSpeed);
  position = std::clamp(position + velocity, kMinPosition, kMaxPosition);
  if (position == kMinPosition && velocity < 0) velocity = 0;
}

// The height of the ground for rendering; the physics only uses a slope proportional to cos(3 x).
double height(double position) { return 0.45 * std::sin(3 * position) + 0.55; }

void draw(const MountainCar::State& state, double goal, Image& image) {
  constexpr double kPixels = 600 / (kMaxPosition - kMinPosition), kPixel = 1 / kPixels;
  constexpr double kLength = 40 * kPixel, kHigh = 20 * kPixel, kWheel = kHigh / 2.5;
  constexpr Drawing::Colour kGray{128, 128, 128}, kFlag{204, 204, 0};
  Drawing drawing(
      image,
      {.height = 400, .width = 600, .scale = kPixels, .origin = {-kMinPosition * kPixels, 0}});
  std::vector<Drawing::Point> ground;
  for (int pixel = 0; pixel <= 600; pixel += 6) {
    const double x = kMinPosition + pixel * kPixel;
    ground.push_back({x, height(x)});
  }
  drawing.path(ground, 2 * kPixel, Drawing::kBlack);

  const double foot = height(goal), top = foot + 50 * kPixel;
  drawing.line({goal, foot}, {goal, top}, kPixel, Drawing::kBlack);
  drawing.polygon(
      std::array<Drawing::Point, 3>{
          {{goal, top}, {goal, top - 10 * kPixel}, {goal + 25 * kPixel, top - 5 * kPixel}}},
      kFlag);

  const double x = state[0], slope = std::atan(1.35 * std::cos(3 * x));
  const auto part = [&](double along, double above) {
    return placed({along, above}, slope, {x, height(x)});
  };
  drawing.line(part(-kLength / 2, kWheel + kHigh / 2), part(kLength / 2, kWheel + kHigh / 2), kHigh,
               Drawing::kBlack);
  for (const double wheel : {-kLength / 4, kLength / 4})
    drawing.disc(part(wheel, kWheel), kWheel, kGray);
}

}  // namespace

EnvSpec MountainCar::spec() { return make_spec(kId, ActionSpec::discrete(3)); }

MountainCar::State MountainCar::start(Rng& rng) { return {rng.uniform(-0.6, -0.4), 0}; }

Outcome MountainCar::advance(State& state, ArraysIn action) {
  roll(state, static_cast<double>(choice_of(action, 3, kId) - 1) * kForce);
  return {.reward = -1, .terminated = state[0] >= kGoal && state[1] >= 0};
}

void MountainCar::observe(const State& state, float* observation) {
  for (const double x : state) *observation++ = static_cast<float>(x);
}

void MountainCar::render(const State& state, Image& image) { draw(state, kGoal, image); }

EnvSpec MountainCarContinuous::spec() {
  return make_spec(kContinuousId, ActionSpec::box(1, -1, 1));
}

Outcome MountainCarContinuous::advance(State& state, ArraysIn action) {
  const double force = *action.as<float>();
  roll(state, std::clamp(force, -1.0, 1.0) * kContinuousForce);
  for (double& x : state) x = static_cast<float>(x);
  const bool there = state[0] >= kContinuousGoal && state[1] >= 0;
  return {.reward = (there ? 100 : 0) - 0.1 * force * force, .terminated = there};
}

void MountainCarContinuous::render(const State& state, Image& image) {
  draw(state, kContinuousGoal, image);
}

EnvFactory make_mountain_car(int time_limit) {
  return make_classic_control<MountainCar>(time_limit);
}

EnvFactory make_mountain_car_continuous(int time_limit) {
  return make_classic_control<MountainCarContinuous>(time_limit);
}

}  // namespace shoal
