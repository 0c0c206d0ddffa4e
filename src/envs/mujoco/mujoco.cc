#include "shoal/envs/mujoco.h"

#include <algorithm>
#include <cmath>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/envs/mujoco/mujoco_env.h"

namespace shoal {
namespace {

// Sizes of a model.
struct Sizes {
  std::size_t positions, velocities, controls, bodies;
  bool operator==(const Sizes&) const = default;
};

struct KnownTask {
  const char* id;
  const char* model;  // file name
  Sizes sizes;
  MujocoTask (*make)(const MujocoModel&);
};
constexpr KnownTask kMujocoTasks[] = {
    {"Ant-v5", "ant.xml", {15, 14, 8, 14}, ant},
    {"HalfCheetah-v5", "half_cheetah.xml", {9, 9, 6, 8}, half_cheetah},
    {"Hopper-v5", "hopper.xml", {6, 6, 3, 5}, hopper},
    {"Humanoid-v5", "humanoid.xml", {24, 23, 17, 14}, humanoid},
    {"HumanoidStandup-v5", "humanoidstandup.xml", {24, 23, 17, 14}, humanoid_standup},
    {"InvertedDoublePendulum-v5",
     "inverted_double_pendulum.xml",
     {3, 3, 1, 4},
     inverted_double_pendulum},
    {"InvertedPendulum-v5", "inverted_pendulum.xml", {2, 2, 1, 3}, inverted_pendulum},
    {"Pusher-v5", "pusher_v5.xml", {11, 11, 7, 13}, pusher},
    {"Reacher-v5", "reacher.xml", {4, 4, 2, 5}, reacher},
    {"Swimmer-v5", "swimmer.xml", {5, 5, 2, 4}, swimmer},
    {"Walker2d-v5", "walker2d_v5.xml", {9, 9, 6, 8}, walker_2d},
};

std::vector<std::string> known_ids() {
  std::vector<std::string> ids;
  for (const KnownTask& known : kMujocoTasks) ids.emplace_back(known.id);
  return ids;
}

const KnownTask& find_task(const std::string& id) {
  for (const KnownTask& known : kMujocoTasks)
    if (id == known.id) return known;
  throw Error("unknown MuJoCo task '{}'; did you mean '{}'?", id, nearest(id, known_ids()));
}

// Checks the model's sizes, because a task indexes its arrays by position.
MujocoModel read_model(const KnownTask& known) {
  const auto file = mujoco_models() / known.model;
  MujocoModel model(file);
  const auto& found = model.constants();
  const Sizes& s = known.sizes;
  require(Sizes{found.nq, found.nv, found.nu, found.nbody} == s,
          "'{}' is not Gymnasium's model for {}: it has {} positions, {} velocities, {} controls "
          "and {} bodies, expected {}, {}, {} and {}",
          file.string(), known.id, found.nq, found.nv, found.nu, found.nbody, s.positions,
          s.velocities, s.controls, s.bodies);
  return model;
}

ActionSpec action_of(const shoal_mujoco_constants& model) {
  const double low = model.ctrlrange[0], high = model.ctrlrange[1];
  for (std::size_t i = 1; i < model.nu; ++i)
    require(
        model.ctrlrange[2 * i] == low && model.ctrlrange[2 * i + 1] == high,
        "control {} of the model has the range [{}, {}], the first one [{}, {}]; expected equal "
        "ranges, as in Gymnasium's models",
        i, model.ctrlrange[2 * i], model.ctrlrange[2 * i + 1], low, high);
  return ActionSpec::box(static_cast<std::int64_t>(model.nu), low, high);
}

EnvSpec spec_of(const std::string& id, const MujocoModel& model, const MujocoTask& task) {
  return {.id = id,
          .observation = ArraySpec{DType::kFloat32, {task.observation}},
          .action = action_of(model.constants()),
          .info = task.info,
          .fps = std::round(1 / (model.constants().timestep * task.frame_skip))};
}

}  // namespace

bool is_mujoco_task(const std::string& id) {
  return std::ranges::any_of(kMujocoTasks, [&](const KnownTask& known) { return id == known.id; });
}

EnvFactory make_mujoco(const std::string& id) {
  const KnownTask& known = find_task(id);
  MujocoModel model = read_model(known);
  MujocoTask task = known.make(model);
  EnvSpec spec = spec_of(id, model, task);
  const auto shared = std::make_shared<const MujocoEnv::Shared>(
      MujocoEnv::Shared{std::move(model), std::move(task), std::move(spec)});
  return
      [shared](const EnvContext& context) { return std::make_unique<MujocoEnv>(shared, context); };
}

std::vector<std::string> mujoco_ids() {
  return has_mujoco() ? known_ids() : std::vector<std::string>{};
}

}  // namespace shoal
