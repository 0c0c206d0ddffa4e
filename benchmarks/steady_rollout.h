#pragma once

#include <cstdint>

#include "shoal/core/spec.h"
#include "shoal/data/samples.h"

namespace shoal::cli {

// T random steps of B environments without an end of an episode, to fill a replay. Supports an
// observation of one field, bytes or real numbers, and one action.
Samples steady_rollout(const EnvSpec& env, std::int64_t T, std::int64_t B);

}  // namespace shoal::cli
