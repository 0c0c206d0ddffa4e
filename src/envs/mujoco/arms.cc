// The arms: Reacher and Pusher.
#include <algorithm>
#include <array>
#include <cmath>

#include "src/envs/mujoco/parts.h"

namespace shoal {
namespace {

using Vector = std::array<double, 3>;

Vector difference(std::span<const double, 3> a, std::span<const double, 3> b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

double length(const Vector& v) { return std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]); }

// Randomises the joint velocities; the last `objects` coordinates stay at rest.
void set_in_motion(const MujocoPhysics& physics, std::size_t objects, Rng& rng) {
  const auto qvel = physics.qvel();
  add_uniform(qvel.first(qvel.size() - objects), 0.005, rng);
}

void start_reacher(const MujocoPhysics& physics, Rng& rng) {
  const auto qpos = physics.qpos();
  const auto goal = qpos.last<2>();
  add_uniform(qpos, 0.1, rng);
  do {
    for (double& x : goal) x = rng.uniform(-0.2, 0.2);
  } while (std::hypot(goal[0], goal[1]) >= 0.2);
  set_in_motion(physics, 2, rng);
}

void observe_reacher(const MujocoPhysics& physics, const Vector& to_tip, float* out) {
  const auto qpos = physics.qpos();
  for (const double angle : qpos.first<2>()) *out++ = static_cast<float>(std::cos(angle));
  for (const double angle : qpos.first<2>()) *out++ = static_cast<float>(std::sin(angle));
  out = put(qpos.subspan(2), out);
  out = put(physics.qvel().first<2>(), out);
  put(std::span(to_tip).first<2>(), out);
}

// The goal keeps the model's position; the object starts at a distance from it.
void start_pusher(const MujocoPhysics& physics, Rng& rng) {
  const auto object = physics.qpos().last<4>();
  do {
    object[0] = rng.uniform(-0.3, 0);
    object[1] = rng.uniform(-0.2, 0.2);
  } while (std::hypot(object[0], object[1]) <= 0.17);
  object[2] = object[3] = 0;
  set_in_motion(physics, 4, rng);
}

}  // namespace

MujocoTask reacher(const MujocoModel& model) {
  const auto to_tip = [tip = model.body("fingertip"),
                       target = model.body("target")](const MujocoPhysics& physics) {
    return difference(physics.position(tip), physics.position(target));
  };
  MujocoTask task;
  task.frame_skip = 2;
  task.time_limit = 50;
  task.observation = 10;
  task.info = mujoco_infos({"reward_dist", "reward_ctrl"});
  task.start = start_reacher;
  task.judge = [to_tip](const MujocoPhysics& physics, const MujocoTask::Step& step,
                        MujocoInfos& infos) -> MujocoTask::Outcome {
    const double distance = -length(to_tip(physics)), control = -control_cost(1, step.action);
    infos.add(distance);
    infos.add(control);
    return {distance + control, false};
  };
  task.observe = [to_tip](const MujocoPhysics& physics, float* out) {
    observe_reacher(physics, to_tip(physics), out);
  };
  return task;
}

MujocoTask pusher(const MujocoModel& model) {
  const std::size_t tips = model.body("tips_arm"), object = model.body("object"),
                    goal = model.body("goal");
  MujocoTask task;
  task.frame_skip = 5;
  task.time_limit = 100;
  task.observation = 23;
  task.info = mujoco_infos({"reward_dist", "reward_ctrl", "reward_near"});
  task.start = start_pusher;
  task.judge = [=](const MujocoPhysics& physics, const MujocoTask::Step& step,
                   MujocoInfos& infos) -> MujocoTask::Outcome {
    const auto at = physics.position(object);
    const double near = -length(difference(at, physics.position(tips))) * 0.5;
    const double distance = -length(difference(at, physics.position(goal)));
    const double control = -control_cost(0.1, step.action);
    for (const double number : {distance, control, near}) infos.add(number);
    return {distance + control + near, false};
  };
  task.observe = [=](const MujocoPhysics& physics, float* out) {
    out = put(physics.qvel().first<7>(), put(physics.qpos().first<7>(), out));
    for (const std::size_t body : {tips, object, goal}) out = put(physics.position(body), out);
  };
  return task;
}

}  // namespace shoal
