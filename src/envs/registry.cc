#include "shoal/envs/registry.h"

#include <algorithm>
#include <cctype>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/mujoco.h"
#include "shoal/envs/wrappers.h"
#include "src/core/registered.h"
#include "src/envs/mujoco/task.h"

namespace shoal {

namespace {

struct Task {
  const char* id;
  EnvFactory (*make)();
};
// With Gymnasium's time limits.
constexpr Task kClassicControl[] = {
    {"CartPole-v1", [] { return make_cart_pole(); }},
    {"Acrobot-v1", [] { return make_acrobot(); }},
    {"MountainCar-v0", [] { return make_mountain_car(); }},
    {"MountainCarContinuous-v0", [] { return make_mountain_car_continuous(); }},
    {"Pendulum-v1", [] { return make_pendulum(); }},
};

Registered<EnvFactory>& registered() {
  static Registered<EnvFactory> all;
  return all;
}

// "CartPole" of "CartPole-v1", in lower case.
std::string task_of(const std::string& id) {
  std::string task = id.substr(0, id.rfind("-v"));
  for (char& c : task) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return task;
}

// Also searches Gymnasium's ids, except for tasks that are implemented here in C++.
std::string nearest_id(const std::string& id, const GymnasiumOptions& gymnasium) {
  const auto here = env_ids();
  auto others = gymnasium_ids(gymnasium);
  std::erase_if(others, [&](const std::string& other) {
    return std::ranges::any_of(here,
                               [&](const auto& own) { return task_of(own) == task_of(other); });
  });
  const auto own = nearest(id, here), other = nearest(id, others);
  return other.empty() || nearest(id, {own, other}) == own ? own : "gymnasium:" + other;
}

EnvFactory make_plain(const std::string& id, const EnvOptions& options) {
  for (const auto& task : kClassicControl)
    if (id == task.id) return task.make();
  if (const auto* own = registered().find(id)) return *own;
  if (id.starts_with("gymnasium:")) return make_gymnasium(id, options.gymnasium);
  if (id.starts_with("ALE/")) return make_atari(id, options.atari);
  if (is_mujoco_task(id)) return make_mujoco(id);
  throw Error("unknown environment '{}'; did you mean '{}'?", one_line(id),
              nearest_id(id, options.gymnasium));
}

}  // namespace

EnvFactory make_env_factory(const std::string& id, const EnvOptions& options) {
  auto make_env = make_plain(id, options);
  if (!options.observation_indices.empty())
    make_env = with_observation_elements(std::move(make_env), options.observation_indices);
  if (options.action_repeat != 1)
    make_env = with_action_repeat(std::move(make_env), options.action_repeat);
  if (options.time_limit != 0) make_env = with_time_limit(std::move(make_env), options.time_limit);
  if (options.reward_scale != 1)
    make_env = with_scaled_reward(std::move(make_env), options.reward_scale);
  if (options.normalize_reward) make_env = with_normalized_reward(std::move(make_env));
  if (options.reward_clip != 0)
    make_env = with_clipped_reward(std::move(make_env), -options.reward_clip, options.reward_clip);
  return make_env;
}

void register_env(const std::string& id, EnvFactory make_env) {
  registered().add("an environment", id, std::move(make_env), env_ids());
}

std::vector<std::string> env_ids() {
  std::vector<std::string> ids;
  for (const auto& task : kClassicControl) ids.emplace_back(task.id);
  for (std::string& id : mujoco_ids()) ids.push_back(std::move(id));
  registered().append_names(ids);
  for (std::string& id : atari_ids()) ids.push_back(std::move(id));
  return ids;
}

}  // namespace shoal
