// The inverted pendulums, single and double, on a cart.
#include <algorithm>
#include <cmath>

#include "src/envs/mujoco/parts.h"

namespace shoal {
namespace {

MujocoTask::Outcome judge_pendulum(const MujocoPhysics& physics, const MujocoTask::Step&,
                                   MujocoInfos& infos) {
  const auto finite = [](double x) { return std::isfinite(x); };
  const bool upright = std::ranges::all_of(physics.qpos(), finite) &&
                       std::ranges::all_of(physics.qvel(), finite) &&
                       !(std::abs(physics.qpos()[1]) > 0.2);
  const double survive = upright ? 1 : 0;
  infos.add(survive);
  return {survive, !upright};
}

MujocoTask::Outcome judge_double_pendulum(const MujocoPhysics& physics, const MujocoTask::Step&,
                                          MujocoInfos& infos) {
  const double x = physics.now.site_xpos[0], y = physics.now.site_xpos[2];  // of the tip
  const double v1 = physics.qvel()[1], v2 = physics.qvel()[2];
  const bool fell = y <= 1;
  const double distance = 0.01 * (x * x) + (y - 2) * (y - 2);
  const double velocity = 1e-3 * (v1 * v1) + 5e-3 * (v2 * v2);
  const double survive = fell ? 0 : 10;
  for (const double number : {survive, -distance, -velocity}) infos.add(number);
  return {survive - distance - velocity, fell};
}

void observe_double_pendulum(const MujocoPhysics& physics, float* out) {
  const auto angles = physics.qpos().subspan(1);
  out = put(physics.qpos().first(1), out);
  for (const double angle : angles) *out++ = static_cast<float>(std::sin(angle));
  for (const double angle : angles) *out++ = static_cast<float>(std::cos(angle));
  out = put_cut(physics.qvel(), 10, out);
  put_cut({physics.now.qfrc_constraint, 1}, 10, out);
}

}  // namespace

MujocoTask inverted_pendulum(const MujocoModel&) {
  MujocoTask task;
  task.frame_skip = 2;
  task.observation = 4;
  task.info = mujoco_infos({"reward_survive"});
  task.start = uniform_start(0.01);
  task.judge = judge_pendulum;
  task.observe = [](const MujocoPhysics& physics, float* out) {
    put(physics.qvel(), put(physics.qpos(), out));
  };
  return task;
}

MujocoTask inverted_double_pendulum(const MujocoModel&) {
  MujocoTask task;
  task.frame_skip = 5;
  task.observation = 9;
  task.info = mujoco_infos({"reward_survive", "distance_penalty", "velocity_penalty"});
  task.start = normal_start(0.1);
  task.judge = judge_double_pendulum;
  task.observe = observe_double_pendulum;
  return task;
}

}  // namespace shoal
