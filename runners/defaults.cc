#include <fmt/format.h>

#include <algorithm>

#include "runners/preset_names.h"
#include "shoal/runners/config.h"
#include "src/agents/observation_normalizer.h"
#include "src/envs/construction.h"

namespace shoal {
namespace {

bool has_real_actions(const EnvSpec& env) {
  return std::ranges::any_of(
      env.action, [](const auto& item) { return item.second.kind == ActionSpec::Kind::kBox; });
}

// The first part of the names of defaults.
std::string kind_of(const EnvSpec& env) {
  const bool pictures = model_for(env.observation, {.name = "auto"}) == "nature-cnn";
  return fmt::format("{}{}-{}", kDefaultsFolder, pictures ? "pictures" : "vectors",
                     has_real_actions(env) ? "real" : "discrete");
}

bool has_numbers_to_normalize(const EnvSpec& env) {
  return std::ranges::any_of(env.observation,
                             [](const auto& item) { return is_normalized(item.second); });
}

Config defaults_of(const std::string& kind, const std::string& algo) {
  if (algo.empty()) return preset(kind);
  if (is_preset(fmt::format("{}-{}", kind, algo))) return preset(fmt::format("{}-{}", kind, algo));
  Config config = preset(kind);
  config.algo = algo;
  if (is_off_policy(config)) config = preset(kind + "-replay");
  config.algo = algo;
  return config;
}

}  // namespace

Config default_config(const EnvSpec& env, const std::string& algo) {
  auto config = defaults_of(kind_of(env), algo);
  if (!has_numbers_to_normalize(env)) config.agent.normalize_observation = false;
  return config;
}

Config default_config(const Config& asked, const std::string& algo) {
  auto config =
      default_config(spec_of(make_env_factory(asked), {}, asked.sampler.reset_limit), algo);
  // An evaluation does not scale rewards as the training does, and a memory must not see others.
  if (asked.model.memory != MemoryKind::kNone && config.env.normalize_reward)
    config.model.memory_sees_previous = false;
  return config;
}

}  // namespace shoal
