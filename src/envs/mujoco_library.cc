#include "src/envs/mujoco_library.h"

#include <array>
#include <cstdlib>
#include <system_error>

#include "shoal/core/error.h"
#include "src/core/plugin.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

const Plugin& mujoco_plugin() {
  static const Plugin kMujoco{.what = "MuJoCo",
                              .file = "shoal_mujoco.so",
                              .variable = "SHOAL_MUJOCO_PLUGIN",
                              .built = SHOAL_MUJOCO_PLUGIN_PATH,
                              .option = "SHOAL_WITH_MUJOCO",
                              .symbol = SHOAL_MUJOCO_GET_API};
  return kMujoco;
}

const shoal_mujoco_api& load_mujoco() {
  const shoal_mujoco_api* api =
      reinterpret_cast<shoal_mujoco_get_api_function>(mujoco_plugin().load())();
  require(api->version == SHOAL_MUJOCO_VERSION,
          "the MuJoCo plugin {} has version {}, this program needs {}: build it again",
          mujoco_plugin().path().string(), api->version, static_cast<int>(SHOAL_MUJOCO_VERSION));
  return *api;
}

}  // namespace

const shoal_mujoco_api& mujoco_library() {
  static const shoal_mujoco_api& api = load_mujoco();
  return api;
}

fs::path mujoco_models() {
  const char* chosen = std::getenv("SHOAL_MUJOCO_MODELS");
  return chosen ? chosen : SHOAL_MUJOCO_MODELS_PATH;
}

bool has_mujoco() {
  std::error_code ignored;
  return fs::exists(mujoco_plugin().path(), ignored) && fs::exists(mujoco_models(), ignored);
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
  require(index >= 0, "the model has no body '{}'; it must be Gymnasium's own", name);
  return static_cast<std::size_t>(index);
}

MujocoSimulation start_simulation(const MujocoModel& model) {
  MujocoSimulation simulation(mujoco_library().create(model.get()));
  require(simulation != nullptr, "there is no memory for a simulation of MuJoCo");
  return simulation;
}

}  // namespace shoal
