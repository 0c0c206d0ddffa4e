// The bodies in space: Ant, Humanoid and HumanoidStandup.
#include <algorithm>
#include <cmath>

#include "src/envs/mujoco/parts.h"

namespace shoal {
namespace {

constexpr std::size_t kTorso = 1;  // the first body after the world

struct Rewards {
  double forward, survive, control, contact;  // the last two are costs

  MujocoTask::Outcome tell(const MujocoTask::Step& step, MujocoInfos& infos) const {
    for (const double number :
         {step.velocity[0], step.velocity[1], forward, -control, -contact, survive})
      infos.add(number);
    return {(forward + survive) - (control + contact), survive == 0};
  }
};

MujocoTask spatial_runner() {
  return {.frame_skip = 5,
          .contact_forces = true,
          .info = mujoco_infos({"x_position", "y_position", "distance_from_origin", "x_velocity",
                                "y_velocity", "reward_forward", "reward_ctrl", "reward_contact",
                                "reward_survive"}),
          .report = report_place};
}

// ---- Ant ----

bool ant_is_healthy(const MujocoPhysics& physics) {
  const auto finite = [](double x) { return std::isfinite(x); };
  const double z = physics.qpos()[2];
  return std::ranges::all_of(physics.qpos(), finite) &&
         std::ranges::all_of(physics.qvel(), finite) && 0.2 <= z && z <= 1;
}

double ant_contact_cost(const MujocoPhysics& physics) {
  const auto forces = physics.contact_forces();
  return 5e-4 * numpy_sum<double>(forces.size(), [forces](std::size_t i) {
           const double cut = std::clamp(forces[i], -1.0, 1.0);
           return cut * cut;
         });
}

MujocoTask::Outcome judge_ant(const MujocoPhysics& physics, const MujocoTask::Step& step,
                              MujocoInfos& infos) {
  const Rewards rewards{.forward = step.velocity[0],
                        .survive = ant_is_healthy(physics) ? 1.0 : 0.0,
                        .control = control_cost(0.5, step.action),
                        .contact = ant_contact_cost(physics)};
  return rewards.tell(step, infos);
}

// ---- Humanoid and HumanoidStandup ----

MujocoTask::Place center_of_mass(const MujocoPhysics& physics) {
  double x = 0, y = 0;
  for (std::size_t b = 0; b < physics.model.nbody; ++b) {
    x += physics.model.body_mass[b] * physics.now.xipos[3 * b];
    y += physics.model.body_mass[b] * physics.now.xipos[3 * b + 1];
  }
  const double mass = numpy_sum<double>(physics.model.nbody,
                                        [&](std::size_t b) { return physics.model.body_mass[b]; });
  return {x / mass, y / mass};
}

// In float64, unlike in the other tasks.
double humanoid_control_cost(const MujocoPhysics& physics) {
  return 0.1 * sum_of_squares(physics.ctrl());
}

double humanoid_contact_cost(const MujocoPhysics& physics) {
  return std::min(5e-7 * sum_of_squares(physics.contact_forces()), 10.0);
}

MujocoTask::Outcome judge_humanoid(const MujocoPhysics& physics, const MujocoTask::Step& step,
                                   MujocoInfos& infos) {
  const double z = physics.qpos()[2];
  const Rewards rewards{.forward = 1.25 * step.velocity[0],
                        .survive = 1 < z && z < 2 ? 5.0 : 0.0,
                        .control = humanoid_control_cost(physics),
                        .contact = humanoid_contact_cost(physics)};
  return rewards.tell(step, infos);
}

// The height is divided by the duration of a timestep, of which a step has five.
MujocoTask::Outcome judge_standup(const MujocoPhysics& physics, const MujocoTask::Step&,
                                  MujocoInfos& infos) {
  const double up = physics.qpos()[2] / physics.model.timestep;
  const double control = humanoid_control_cost(physics);
  const double contact = humanoid_contact_cost(physics);
  for (const double number : {up, -control, -contact}) infos.add(number);
  return {up - control - contact + 1, false};
}

void report_standup(const MujocoPhysics& physics, MujocoInfos& infos) {
  const auto qpos = physics.qpos();
  for (const double number : {qpos[0], qpos[1], qpos[2] - physics.model.qpos0[2]})
    infos.add(number);
}

// The world's entries are always 0, as are the actuator forces of the free joint; both are left
// out.
void observe_humanoid(const MujocoPhysics& physics, float* out) {
  const std::size_t bodies = physics.model.nbody - 1, joints = physics.model.nv - 6;
  out = put(physics.qvel(), put(physics.qpos().subspan(2), out));
  out = put({physics.now.cinert + 10, 10 * bodies}, out);
  out = put({physics.now.cvel + 6, 6 * bodies}, out);
  out = put({physics.now.qfrc_actuator + 6, joints}, out);
  put(physics.contact_forces().subspan(6), out);
}

}  // namespace

MujocoTask ant(const MujocoModel& model) {
  const auto& constants = model.constants();
  MujocoTask task = spatial_runner();
  task.observation =
      static_cast<std::int64_t>(constants.nq - 2 + constants.nv + 6 * (constants.nbody - 1));
  task.start = normal_start(0.1);
  task.place = [](const MujocoPhysics& physics) {
    const auto torso = physics.position(kTorso);
    return MujocoTask::Place{torso[0], torso[1]};
  };
  task.judge = judge_ant;
  task.observe = [](const MujocoPhysics& physics, float* out) {
    out = put(physics.qvel(), put(physics.qpos().subspan(2), out));
    put_cut(physics.contact_forces().subspan(6), 1, out);
  };
  return task;
}

MujocoTask humanoid(const MujocoModel& model) {
  const auto& constants = model.constants();
  MujocoTask task = spatial_runner();
  task.observation = static_cast<std::int64_t>(constants.nq - 2 + constants.nv +
                                               22 * (constants.nbody - 1) + constants.nv - 6);
  task.start = uniform_start(1e-2);
  task.place = center_of_mass;
  task.judge = judge_humanoid;
  task.observe = observe_humanoid;
  return task;
}

MujocoTask humanoid_standup(const MujocoModel& model) {
  MujocoTask task = humanoid(model);
  task.place = MujocoTask().place;  // no velocity counts
  task.info = mujoco_infos({"x_position", "y_position", "z_distance_from_origin", "reward_linup",
                            "reward_quadctrl", "reward_impact"});
  task.report = report_standup;
  task.judge = judge_standup;
  return task;
}

}  // namespace shoal
