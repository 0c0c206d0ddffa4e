#include "samplers/rollout_spec.h"

#include <fmt/ranges.h>

#include "shoal/core/error.h"

namespace shoal {

namespace {

std::string describe(const NamedSpecs& arrays) {
  std::string text;
  for (const auto& [name, spec] : arrays)
    text +=
        fmt::format("{}{}{} {} [{}] x {}", text.empty() ? "" : ", ", name, name.empty() ? "" : ":",
                    name_of(spec.dtype), fmt::join(spec.shape, ", "), spec.stack);
  return "{" + text + "}";
}

}  // namespace

RolloutSpec rollout_spec(const EnvSpec& env, const NamedSpecs& agent_info) {
  require(
      !env.action_mask ||
          (env.action.size() == 1 && env.action[0].kind == ActionSpec::Kind::kDiscrete),
      "{}: an action mask requires a single discrete action; this environment has other actions",
      env.id);
  auto spec = rollout_spec(env);
  spec.agent_info = agent_info;
  for (const auto& info : env.info) {
    const auto& array = info.array;
    require(
        info.name != "score" || (array.dtype == DType::kFloat32 && array.count() == 1 &&
                                 info.reduce == PerEpisode::kSum),
        "{}: the info 'score' is {} with {} elements{}; expected one float32 that is summed over "
        "an episode (score:sum), which becomes the return; give other numbers another name",
        env.id, name_of(array.dtype), array.count(),
        info.reduce == PerEpisode::kSum ? "" : " that are not summed");
    spec.env_info.add(info.name, array);
  }
  return spec;
}

std::vector<EpisodeInfo> episode_infos(const EnvSpec& env) {
  std::vector<EpisodeInfo> infos;
  for (std::size_t i = 0; i < env.info.size(); ++i) {
    const auto& [name, array, reduce] = env.info[i];
    if (reduce == PerEpisode::kNone || name == "score") continue;
    require(array.count() == 1,
            "{}: the info '{}' has {} elements; only single numbers can be reduced over an episode",
            env.id, name, array.count());
    infos.push_back({i, array.dtype, reduce, name});
  }
  return infos;
}

void require_same(const RolloutSpec& planned, const EnvSpec& env, std::int64_t b) {
  const auto found = rollout_spec(env, planned.agent_info);
  auto compare = [&](const char* what, const NamedSpecs& wanted, const NamedSpecs& has) {
    require(describe(wanted) == describe(has),
            "environment {} has the {} {}, and environment 0 has {}; the environments of a sampler "
            "share one spec",
            b, what, describe(has), describe(wanted));
  };
  compare("observation", planned.observation, found.observation);
  compare("action", planned.action, found.action);
  compare("action mask", planned.mask, found.mask);
  compare("infos", planned.env_info, found.env_info);
}

}  // namespace shoal
