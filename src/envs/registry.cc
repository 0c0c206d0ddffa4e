#include "shoal/envs/registry.h"

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/envs/classic_control.h"

namespace shoal {

namespace {

struct Task {
  const char* id;
  EnvFactory (*make)();
};
// Each with Gymnasium's time limit.
constexpr Task kClassicControl[] = {
    {"CartPole-v1", [] { return make_cart_pole(); }},
    {"Acrobot-v1", [] { return make_acrobot(); }},
    {"MountainCar-v0", [] { return make_mountain_car(); }},
    {"MountainCarContinuous-v0", [] { return make_mountain_car_continuous(); }},
    {"Pendulum-v1", [] { return make_pendulum(); }},
};

}  // namespace

EnvFactory make_env_factory(const std::string& id, const EnvOptions& options) {
  for (const auto& task : kClassicControl)
    if (id == task.id) return task.make();
  if (id.starts_with("ALE/")) return make_atari(id, options.atari);
  throw Error("unknown environment '{}'; did you mean '{}'?", id, nearest(id, env_ids()));
}

std::vector<std::string> env_ids() {
  std::vector<std::string> ids;
  for (const auto& task : kClassicControl) ids.emplace_back(task.id);
  for (std::string& id : atari_ids()) ids.push_back(std::move(id));
  return ids;
}

}  // namespace shoal
