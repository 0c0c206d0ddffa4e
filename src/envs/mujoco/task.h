#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/core/spec.h"
#include "shoal/envs/env.h"
#include "src/envs/mujoco/mujoco_library.h"

namespace shoal {

// A task's view of its simulation.
struct MujocoPhysics {
  const shoal_mujoco_constants& model;
  const shoal_mujoco_arrays& now;

  std::span<double> qpos() const { return {now.qpos, model.nq}; }
  std::span<double> qvel() const { return {now.qvel, model.nv}; }
  std::span<const double> ctrl() const { return {now.ctrl, model.nu}; }
  // Six numbers for each body, starting with the world.
  std::span<const double> contact_forces() const { return {now.cfrc_ext, 6 * model.nbody}; }
  // The position of a body's frame: x, y, z.
  std::span<const double, 3> position(std::size_t body) const {
    return std::span<const double, 3>(now.xpos + 3 * body, 3);
  }
};

// Writes the infos of one call, in order.
class MujocoInfos {
 public:
  explicit MujocoInfos(ArraysOut out) : out_(out) {}
  void add(double number) { *out_.as<float>(next_++) = static_cast<float>(number); }
  void fill_with_zeros() {
    while (next_ < out_.size()) add(0);
  }

 private:
  ArraysOut out_;
  std::size_t next_ = 0;
};

// The differences between Gymnasium's environments.
struct MujocoTask {
  using Place = std::array<double, 2>;
  struct Step {
    std::span<const float> action;
    Place velocity;  // of `place`, by finite difference over the step
  };
  struct Outcome {
    double reward = 0;
    bool terminated = false;
  };

  int frame_skip = 1;               // physics timesteps per step
  int time_limit = 1000;            // steps
  bool contact_forces = false;      // whether contact forces are computed
  std::int64_t observation = 0;     // size of the observation
  std::vector<InfoSpec> info = {};  // infos of `report`, then infos of `judge`

  // Moves the simulation, after its reset, to the start of an episode.
  std::function<void(const MujocoPhysics&, Rng&)> start = {};
  // The point whose velocity a step reports.
  std::function<Place(const MujocoPhysics&)> place = [](const MujocoPhysics&) { return Place{}; };
  // Infos that need no step.
  std::function<void(const MujocoPhysics&, MujocoInfos&)> report = [](const auto&, auto&) {};
  std::function<Outcome(const MujocoPhysics&, const Step&, MujocoInfos&)> judge = {};
  std::function<void(const MujocoPhysics&, float*)> observe = {};
};

MujocoTask half_cheetah(const MujocoModel& model);
MujocoTask hopper(const MujocoModel& model);
MujocoTask walker_2d(const MujocoModel& model);
MujocoTask swimmer(const MujocoModel& model);
MujocoTask ant(const MujocoModel& model);
MujocoTask humanoid(const MujocoModel& model);
MujocoTask humanoid_standup(const MujocoModel& model);
MujocoTask reacher(const MujocoModel& model);
MujocoTask pusher(const MujocoModel& model);
MujocoTask inverted_pendulum(const MujocoModel& model);
MujocoTask inverted_double_pendulum(const MujocoModel& model);

// Whether this is the id of a MuJoCo task, available or not.
bool is_mujoco_task(const std::string& id);

}  // namespace shoal
