#pragma once

#include "shoal/runners/config.h"

namespace shoal {

// Throws Error if the network and what learns it take more memory than there is.
void require_weights_fit(const Config& config, const EnvSpec& env);

}  // namespace shoal
