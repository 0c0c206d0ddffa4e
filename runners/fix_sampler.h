#pragma once

#include <cstdint>
#include <string>

#include "shoal/runners/config.h"

namespace shoal {

// Replaces sampler.kind = auto in the configuration of a rank by the sampler that suits it: see
// choose_sampler(). All ranks must call it together. together: BatchTraits::multiple. Returns lines
// for the user.
std::string fix_sampler(Config& config, const EnvFactory& make_env, Agent& agent,
                        std::int64_t together, ProcessGroup& ranks = group_of_one());

}  // namespace shoal
