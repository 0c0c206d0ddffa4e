#include "src/envs/mujoco/parts.h"

namespace shoal {

MujocoTask swimmer(const MujocoModel& model) {
  const auto& constants = model.constants();
  MujocoTask task;
  task.frame_skip = 4;
  task.observation = static_cast<std::int64_t>(constants.nq + constants.nv - 2);
  task.info = mujoco_infos({"x_position", "y_position", "distance_from_origin", "x_velocity",
                            "y_velocity", "reward_forward", "reward_ctrl"});
  task.start = uniform_start(0.1);
  task.place = [](const MujocoPhysics& physics) {
    return MujocoTask::Place{physics.qpos()[0], physics.qpos()[1]};
  };
  task.report = report_place;
  task.judge = [](const MujocoPhysics&, const MujocoTask::Step& step,
                  MujocoInfos& infos) -> MujocoTask::Outcome {
    const double forward = step.velocity[0], control = control_cost(1e-4, step.action);
    for (const double number : {step.velocity[0], step.velocity[1], forward, -control})
      infos.add(number);
    return {forward - control, false};
  };
  task.observe = [](const MujocoPhysics& physics, float* out) {
    put(physics.qvel(), put(physics.qpos().subspan(2), out));
  };
  return task;
}

}  // namespace shoal
