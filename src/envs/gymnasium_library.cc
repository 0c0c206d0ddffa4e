#include "src/envs/gymnasium_library.h"

#include "shoal/core/error.h"
#include "src/core/plugin.h"

namespace shoal {
namespace {

const shoal_gymnasium_api& load_gymnasium() {
  const Plugin plugin{.what = "Gymnasium",
                      .file = "shoal_gymnasium.so",
                      .variable = "SHOAL_GYMNASIUM_PLUGIN",
                      .built = SHOAL_GYMNASIUM_PLUGIN_PATH,
                      .option = "SHOAL_WITH_GYMNASIUM",
                      .symbol = SHOAL_GYMNASIUM_GET_API};
  const shoal_gymnasium_api* api =
      reinterpret_cast<shoal_gymnasium_get_api_function>(plugin.load())();
  require(api->version == SHOAL_GYMNASIUM_VERSION,
          "the Gymnasium plugin {} has version {}, this program needs {}: build it again",
          plugin.path().string(), api->version, static_cast<int>(SHOAL_GYMNASIUM_VERSION));
  return *api;
}

}  // namespace

const shoal_gymnasium_api& gymnasium_library() {
  static const shoal_gymnasium_api& api = load_gymnasium();
  return api;
}

GymnasiumHandle open_gymnasium(const GymnasiumTask& task) {
  GymnasiumFailure failure;
  const auto& library = gymnasium_library();
  require(library.start(task.python.c_str(), failure.out()) != 0, "{}", failure.text());
  GymnasiumHandle env(library.make(task.id.c_str(), task.kwargs.c_str(),
                                   static_cast<int>(task.renders), failure.out()));
  require(env != nullptr, "gymnasium:{}: {}", task.id, failure.text());
  return env;
}

}  // namespace shoal
