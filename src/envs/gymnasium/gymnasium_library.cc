#include "src/envs/gymnasium/gymnasium_library.h"

#include "shoal/core/error.h"
#include "src/core/plugin.h"

namespace shoal {
const shoal_gymnasium_api& gymnasium_library() {
  static const auto& api = Plugin{.name = "Gymnasium",
                                  .file = "shoal_gymnasium.so",
                                  .variable = "SHOAL_GYMNASIUM_PLUGIN",
                                  .option = "SHOAL_WITH_GYMNASIUM",
                                  .symbol = SHOAL_GYMNASIUM_GET_API,
                                  .version = SHOAL_GYMNASIUM_VERSION}
                               .load<shoal_gymnasium_api>();
  return api;
}

GymnasiumHandle open_gymnasium(const GymnasiumTask& task) {
  GymnasiumFailure failure;
  const auto& library = gymnasium_library();
  require(library.start(task.python.c_str(), failure.out()) != 0, "{}", failure.text());
  const shoal_gymnasium_task asked{.id = task.id.c_str(),
                                   .kwargs = task.kwargs.c_str(),
                                   .wrappers = task.wrappers.c_str(),
                                   .infos = task.infos.c_str(),
                                   .render = static_cast<int>(task.renders)};
  GymnasiumHandle env(library.make(&asked, failure.out()));
  require(env != nullptr, "gymnasium:{}: {}", task.id, failure.text());
  return env;
}

}  // namespace shoal
