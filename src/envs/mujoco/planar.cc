// The planar runners: HalfCheetah, Hopper and Walker2d.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/envs/mujoco/parts.h"

namespace shoal {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The conditions for a runner to be healthy; all bounds are exclusive.
struct Posture {
  double min_z, max_z;
  double max_angle;               // of the torso, rad
  double max_state = kUnlimited;  // of all angles and velocities

  bool holds(const MujocoPhysics& physics) const {
    const auto within = [](double x, double limit) { return -limit < x && x < limit; };
    const auto qpos = physics.qpos(), qvel = physics.qvel();
    const auto allowed = [&](double x) { return within(x, max_state); };
    return std::ranges::all_of(qpos.subspan(2), allowed) && std::ranges::all_of(qvel, allowed) &&
           min_z < qpos[1] && qpos[1] < max_z && within(qpos[2], max_angle);
  }
};

MujocoTask::Place along_x(const MujocoPhysics& physics) { return {physics.qpos()[0], 0}; }

// Positions without x, then velocities, clipped to a limit.
void observe_planar(const MujocoPhysics& physics, double max_velocity, float* out) {
  put_cut(physics.qvel(), max_velocity, put(physics.qpos().subspan(1), out));
}

MujocoTask planar_runner(const MujocoModel& model) {
  const auto& constants = model.constants();
  return {.observation = static_cast<std::int64_t>(constants.nq + constants.nv - 1),
          .place = along_x};
}

MujocoTask falling_runner(const MujocoModel& model, const Posture& posture) {
  MujocoTask task = planar_runner(model);
  task.frame_skip = 4;
  task.info = mujoco_infos({"x_position", "z_distance_from_origin", "x_velocity", "reward_forward",
                            "reward_ctrl", "reward_survive"});
  task.start = uniform_start(5e-3);
  task.report = [](const MujocoPhysics& physics, MujocoInfos& infos) {
    infos.add(physics.qpos()[0]);
    infos.add(physics.qpos()[1] - physics.model.qpos0[1]);
  };
  task.judge = [posture](const MujocoPhysics& physics, const MujocoTask::Step& step,
                         MujocoInfos& infos) -> MujocoTask::Outcome {
    const bool healthy = posture.holds(physics);
    const double forward = step.velocity[0], survive = healthy ? 1 : 0;
    const double control = control_cost(1e-3, step.action);
    for (const double number : {step.velocity[0], forward, -control, survive}) infos.add(number);
    return {forward + survive - control, !healthy};
  };
  task.observe = [](const MujocoPhysics& physics, float* out) { observe_planar(physics, 10, out); };
  return task;
}

}  // namespace

MujocoTask half_cheetah(const MujocoModel& model) {
  MujocoTask task = planar_runner(model);
  task.frame_skip = 5;
  task.info = mujoco_infos({"x_position", "x_velocity", "reward_forward", "reward_ctrl"});
  task.start = normal_start(0.1);
  task.report = [](const MujocoPhysics& physics, MujocoInfos& infos) {
    infos.add(physics.qpos()[0]);
  };
  task.judge = [](const MujocoPhysics&, const MujocoTask::Step& step,
                  MujocoInfos& infos) -> MujocoTask::Outcome {
    const double forward = step.velocity[0], control = control_cost(0.1, step.action);
    for (const double number : {step.velocity[0], forward, -control}) infos.add(number);
    return {forward - control, false};
  };
  task.observe = [](const MujocoPhysics& physics, float* out) {
    observe_planar(physics, kUnlimited, out);
  };
  return task;
}

MujocoTask hopper(const MujocoModel& model) {
  return falling_runner(model,
                        {.min_z = 0.7, .max_z = kUnlimited, .max_angle = 0.2, .max_state = 100});
}

MujocoTask walker_2d(const MujocoModel& model) {
  return falling_runner(model, {.min_z = 0.8, .max_z = 2, .max_angle = 1});
}

}  // namespace shoal
