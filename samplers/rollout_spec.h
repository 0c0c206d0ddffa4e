#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/core/rows.h"
#include "shoal/core/spec.h"

namespace shoal {

// The fields of a row for this environment and agent. Throws Error for specs that samplers do not
// support.
RolloutSpec rollout_spec(const EnvSpec& env, const NamedSpecs& agent_info);

// Rows are planned for the spec of environment 0; an environment with another spec would write past
// its elements. Throws Error with environment b and the difference.
void require_same(const RolloutSpec& planned, const EnvSpec& env, std::int64_t b);

struct EpisodeInfo {
  std::size_t place;  // index among the environment's infos
  DType dtype;
  PerEpisode reduce;
  std::string name;
};
// The infos that are reduced to one number per episode, except "score". Throws Error for infos of
// more than one number.
std::vector<EpisodeInfo> episode_infos(const EnvSpec& env);

}  // namespace shoal
