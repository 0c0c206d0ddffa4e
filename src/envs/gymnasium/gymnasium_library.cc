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

namespace {

const shoal_gymnasium_api& started_library(const GymnasiumTask& task, GymnasiumFailure& failure) {
  const auto& library = gymnasium_library();
  require(library.start(task.python.c_str(), failure.out()) != 0, "{}", failure.text());
  return library;
}

shoal_gymnasium_task plain(const GymnasiumTask& task) {
  return {.id = task.id.c_str(),
          .kwargs = task.kwargs.c_str(),
          .wrappers = task.wrappers.c_str(),
          .infos = task.infos.c_str(),
          .render = static_cast<int>(task.renders),
          .vector = static_cast<int>(task.vector),
          .rare_infos = static_cast<int>(task.rare_infos)};
}

}  // namespace

GymnasiumHandle open_gymnasium(const GymnasiumTask& task) {
  GymnasiumFailure failure;
  const auto asked = plain(task);
  GymnasiumHandle env(started_library(task, failure).make(&asked, failure.out()));
  require(env != nullptr, "{}: {}", task.name(), failure.text());
  return env;
}

GymnasiumVectorHandle open_gymnasium_vector(const GymnasiumTask& task, std::int64_t envs) {
  GymnasiumFailure failure;
  const auto asked = plain(task);
  GymnasiumVectorHandle env(
      started_library(task, failure)
          .make_vector(&asked, static_cast<std::size_t>(envs), failure.out()));
  require(env != nullptr, "{}: {}", task.name(), failure.text());
  return env;
}

bool is_gymnasium_vector(const GymnasiumTask& task) {
  GymnasiumFailure failure;
  const auto asked = plain(task);
  const int vector = started_library(task, failure).is_vector(&asked, failure.out());
  require(vector >= 0, "{}: {}", task.name(), failure.text());
  return vector == 1;
}

void require_same_spaces(const GymnasiumTask& task, const std::string& found,
                         const std::string& expected) {
  require(found == expected,
          "{}: its spaces differ from those that were read first; found\n{}expected\n{}",
          task.name(), found, expected);
}

}  // namespace shoal
