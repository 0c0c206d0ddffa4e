#pragma once

#include <filesystem>
#include <memory>

#include "mujoco_plugin.h"

namespace shoal {

// Loads the plugin into this process, once. Throws Error if it is not there or of another version.
const shoal_mujoco_api& mujoco_library();

// Where the models are expected. The folder may not exist.
std::filesystem::path mujoco_models();
// Whether there are a plugin to load and models.
bool has_mujoco();

// A model that was read from a file; it never changes.
class MujocoModel {
 public:
  // Throws Error if there is no such file, or MuJoCo refuses it.
  explicit MujocoModel(const std::filesystem::path& file);

  const shoal_mujoco_constants& constants() const { return *constants_; }
  // Index of the body of that name. Throws Error if there is none.
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

// Throws Error if there is no memory for it. The model must outlive it.
MujocoSimulation start_simulation(const MujocoModel& model);

}  // namespace shoal
