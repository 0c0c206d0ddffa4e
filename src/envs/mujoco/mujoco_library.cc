#include "src/envs/mujoco/mujoco_library.h"

#include <array>
#include <cstdlib>
#include <system_error>

#include "shoal/core/error.h"
#include "src/core/plugin.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

const Plugin& mujoco_plugin() {
  static const Plugin kPlugin{.name = "MuJoCo",
                              .file = "shoal_mujoco.so",
                              .variable = "SHOAL_MUJOCO_PLUGIN",
                              .option = "SHOAL_WITH_MUJOCO",
                              .symbol = SHOAL_MUJOCO_GET_API,
                              .version = SHOAL_MUJOCO_VERSION};
  return kPlugin;
}

}  // namespace

const shoal_mujoco_api& mujoco_library() {
  static const auto& api = mujoco_plugin().load<shoal_mujoco_api>();
  return api;
}

fs::path mujoco_models() {
  const char* chosen = std::getenv("SHOAL_MUJOCO_MODELS");
  return chosen ? chosen : SHOAL_MUJOCO_MODELS_PATH;
}

bool has_mujoco() {
  std::error_code ignored;
  return mujoco_plugin().exists() && fs::exists(mujoco_models(), ignored);
}

MujocoModel::MujocoModel(const fs::path& file) {
  const shoal_mujoco_api& library = mujoco_library();
  std::error_code ignored;
  require(fs::exists(file, ignored),
          "there is no model '{}'. Run `make setup`, or set SHOAL_MUJOCO_MODELS to the folder of "
          "Gymnasium's models (envs/mujoco/assets)",
          file.string());
  std::array<char, 512> text{};
  model_.reset(library.load_model(file.c_str(), {text.data(), text.size()}));
  require(model_ != nullptr, "MuJoCo cannot read the model '{}': {}", file.string(), text.data());
  constants_ = library.constants(model_.get());
}

std::size_t MujocoModel::body(const char* name) const {
  const int index = mujoco_library().body(model_.get(), name);
  require(index >= 0, "the model has no body '{}'; expected Gymnasium's model", name);
  return static_cast<std::size_t>(index);
}

MujocoSimulation start_simulation(const MujocoModel& model) {
  MujocoSimulation simulation(mujoco_library().create(model.get()));
  require(simulation != nullptr, "cannot allocate a MuJoCo simulation: out of memory");
  return simulation;
}

}  // namespace shoal
