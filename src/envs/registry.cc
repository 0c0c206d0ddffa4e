#include "shoal/envs/registry.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/mujoco.h"
#include "shoal/envs/wrappers.h"
#include "src/core/registered.h"
#include "src/envs/gymnasium/python_id.h"
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
  for (const std::string suffix : {"NoFrameskip", "Deterministic"})  // of old ids of Atari games
    if (task.ends_with(suffix)) task.resize(task.size() - suffix.size());
  for (char& c : task) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return task;
}

// Whether the id is that of the task, or lacks only what comes before the slash: Pong-v5 is
// ALE/Pong-v5.
bool is_task(const std::string& id, const std::string& known) {
  const auto task = task_of(known), asked = task_of(id);
  return task == asked || task.substr(task.rfind('/') + 1) == asked;
}

// Also searches Gymnasium's ids, except for tasks that are implemented here in C++.
std::string nearest_id(const std::string& id, const GymnasiumOptions& gymnasium) {
  const auto here = env_ids();
  for (const auto& own : here)
    if (is_task(id, own)) return own;
  auto others = gymnasium_ids(gymnasium);
  std::erase_if(others, [&](const std::string& other) {
    return std::ranges::any_of(here,
                               [&](const auto& own) { return task_of(own) == task_of(other); });
  });
  const auto own = nearest(id, here), other = nearest(id, others);
  return other.empty() || nearest(id, {own, other}) == own ? own : "gymnasium:" + other;
}

}  // namespace

InfoSpec parse_info(const std::string& text) {
  constexpr std::pair<std::string_view, PerEpisode> kReductions[] = {
      {"last", PerEpisode::kLast}, {"sum", PerEpisode::kSum}, {"max", PerEpisode::kMax}};
  const auto colon = text.rfind(':');
  const auto how = colon == std::string::npos ? "last" : text.substr(colon + 1);
  const auto* const found =
      std::ranges::find(kReductions, how, &std::pair<std::string_view, PerEpisode>::first);
  const bool known = found != std::end(kReductions);
  require(known && colon != 0 && !text.empty() && text.find('\n') == std::string::npos,
          "env.info: found '{}', expected a name, or one with :last, :sum or :max behind it",
          one_line(text));
  return {.name = text.substr(0, colon), .array = ArraySpec{}, .reduce = found->second};
}

namespace {

EnvFactory make_in_python(const std::string& id, const EnvOptions& options) {
  auto python = options.gymnasium;
  for (const auto& text : options.info) python.infos.push_back(parse_info(text));
  return make_gymnasium(id, python);
}

EnvFactory make_plain(const std::string& id, const EnvOptions& options) {
  for (const auto& task : kClassicControl)
    if (id == task.id) return task.make();
  if (const auto* own = registered().find(id)) return *own;
  if (is_in_python(id)) return make_in_python(id, options);
  if (id.starts_with("ALE/")) return make_atari(id, options.atari);
  if (is_mujoco_task(id)) return make_mujoco(id);
  // Gymnasium itself names an environment of a module MODULE:ID.
  const bool of_module = id.find(':') != std::string::npos;
  const auto of_gymnasium = "gymnasium:" + id.substr(id.starts_with("gym:") ? 4 : 0);
  const auto near = of_module ? of_gymnasium : nearest_id(id, options.gymnasium);
  const bool sure = is_task(id, near) || near == of_gymnasium;
  throw Error("unknown environment '{}'; did you mean '{}'?{}", one_line(id), near,
              sure ? "" : " That of a Python package is named gymnasium:PACKAGE:ID.");
}

}  // namespace

EnvFactory make_env_factory(const std::string& id, const EnvOptions& options) {
  std::set<std::string> infos;
  for (const auto& text : options.info)
    require(infos.insert(parse_info(text).name).second,
            "env.info: found '{}' after another entry of this name, expected one of each name",
            one_line(text));
  auto make_env = make_plain(id, options);
  if (!is_in_python(id)) {
    require(!options.gymnasium.vector,
            "gymnasium.vector: found true, but '{}' is no environment of Gymnasium's; expected an "
            "env.id such as gymnasium:{}",
            one_line(id), one_line(id));
    require(options.gymnasium.wrappers.empty(),
            "gymnasium.wrappers: found wrappers in Python, but '{}' is no environment of "
            "Gymnasium's; expected an env.id such as gymnasium:{}",
            one_line(id), one_line(id));
    require(options.gymnasium.kwargs.empty(),
            "gymnasium.kwargs: found '{}', but '{}' is an environment in C++ without such options; "
            "expected an env.id such as gymnasium:{}",
            one_line(options.gymnasium.kwargs), one_line(id), one_line(id));
    for (const auto& text : options.info)
      make_env = with_reduced_info(std::move(make_env), parse_info(text));
  }
  if (!options.observation.empty())
    make_env = with_observation_fields(std::move(make_env), options.observation);
  make_env = with_channels_first(std::move(make_env));
  if (options.grayscale) make_env = with_grayscale(std::move(make_env));
  if (!options.resize.empty())
    make_env =
        with_resized_pictures(std::move(make_env), options.resize.front(), options.resize.back());
  if (options.flatten) make_env = with_flat_observations(std::move(make_env));
  if (!options.observation_indices.empty())
    make_env = with_observation_elements(std::move(make_env), options.observation_indices);
  if (options.stack != 1)
    make_env = with_stack(std::move(make_env), static_cast<int>(options.stack));
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
