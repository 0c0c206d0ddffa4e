#pragma once

#include "shoal/runners/config.h"

namespace shoal {

// Throws Error if the network and its optimizer need more memory than is available.
void require_weights_fit(const Config& config, const EnvSpec& env);

}  // namespace shoal
