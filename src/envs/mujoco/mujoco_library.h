#pragma once

#include <filesystem>
#include <memory>

#include "mujoco_plugin.h"

namespace shoal {

// Loads the plugin on the first call. Throws Error if it is missing or has another version.
const shoal_mujoco_api& mujoco_library();

// The folder of the models. It may not exist.
std::filesystem::path mujoco_models();
// Whether the plugin and the models exist.
bool has_mujoco();

// A model read from a file; immutable.
class MujocoModel {
 public:
  // Throws Error if the file is missing or MuJoCo rejects it.
  explicit MujocoModel(const std::filesystem::path& file);

  const shoal_mujoco_constants& constants() const { return *constants_; }
  // Index of the named body. Throws Error if there is none.
  std::size_t body(const char* name) const;
  const shoal_mujoco_model* get() const { return model_.get(); }

 private:
  struct Free {
    void operator()(shoal_mujoco_model* model) const { mujoco_library().free_model(model); }
  };
  std::unique_ptr<shoal_mujoco_model, Free> model_;
  const shoal_mujoco_constants* constants_;
};

struct DestroyMujoco {
  void operator()(shoal_mujoco_simulation* simulation) const {
    mujoco_library().destroy(simulation);
  }
};
using MujocoSimulation = std::unique_ptr<shoal_mujoco_simulation, DestroyMujoco>;

// Throws Error if memory is exhausted. The model must outlive the simulation.
MujocoSimulation start_simulation(const MujocoModel& model);

}  // namespace shoal
