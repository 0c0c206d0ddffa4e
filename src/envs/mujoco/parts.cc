#include "src/envs/mujoco/parts.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shoal {
namespace {

// Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958; only one of the two
// numbers is used.
double normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

}  // namespace

float* put(std::span<const double> numbers, float* out) {
  for (const double x : numbers) *out++ = static_cast<float>(x);
  return out;
}

float* put_cut(std::span<const double> numbers, double limit, float* out) {
  for (const double x : numbers) *out++ = static_cast<float>(std::clamp(x, -limit, limit));
  return out;
}

void add_uniform(std::span<double> numbers, double scale, Rng& rng) {
  for (double& x : numbers) x += rng.uniform(-scale, scale);
}

MujocoStart uniform_start(double scale) {
  return [scale](const MujocoPhysics& physics, Rng& rng) {
    add_uniform(physics.qpos(), scale, rng);
    add_uniform(physics.qvel(), scale, rng);
  };
}

MujocoStart normal_start(double scale) {
  return [scale](const MujocoPhysics& physics, Rng& rng) {
    add_uniform(physics.qpos(), scale, rng);
    for (double& x : physics.qvel()) x += scale * normal(rng);
  };
}

void report_place(const MujocoPhysics& physics, MujocoInfos& infos) {
  const double x = physics.qpos()[0], y = physics.qpos()[1];
  for (const double number : {x, y, std::sqrt(x * x + y * y)}) infos.add(number);
}

std::vector<InfoSpec> mujoco_infos(const std::vector<std::string>& names) {
  std::vector<InfoSpec> infos;
  for (const std::string& name : names) {
    PerEpisode reduce = PerEpisode::kLast;
    if (name.ends_with("_velocity")) reduce = PerEpisode::kNone;
    if (name.starts_with("reward_") || name.ends_with("_penalty")) reduce = PerEpisode::kSum;
    infos.push_back({name, {DType::kFloat32, {}}, reduce});
  }
  return infos;
}

}  // namespace shoal
