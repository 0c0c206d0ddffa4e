#pragma once

#include "shoal/core/option.h"
#include "shoal/runners/config.h"

namespace shoal {

// All settings of a run, bound to `config`: what reading, writing, --set, the help text and
// validate() follow. The part of a key before the dot is its table in a file; settings of a table
// stand together, those without one come first.
OptionList options_of(Config& config);

}  // namespace shoal
