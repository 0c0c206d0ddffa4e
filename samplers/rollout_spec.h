#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/core/rows.h"
#include "shoal/core/spec.h"

namespace shoal {

// The fields of a row for this environment and agent. Throws Error for what a sampler cannot serve.
RolloutSpec rollout_spec(const EnvSpec& env, const NamedSpecs& agent_info);

// Rows are planned for what environment 0 said; another one would write past its elements. Throws
// Error naming environment b, and what differs.
void require_same(const RolloutSpec& planned, const EnvSpec& env, std::int64_t b);

struct EpisodeInfo {
  std::size_t place;  // among the environment's infos
  DType dtype;
  PerEpisode reduce;
  std::string name;
};
// The infos that are reduced to one number an episode, "score" excepted. Throws Error for those
// that are more than one number.
std::vector<EpisodeInfo> episode_infos(const EnvSpec& env);

}  // namespace shoal
