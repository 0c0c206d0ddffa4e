#pragma once

#include <string>

#include "shoal/core/option.h"
#include "shoal/runners/config.h"

namespace shoal {

// All settings of a run, bound to `config`. Reading, writing, --set, the help text and validate()
// use this list. The part of a key before the dot is its table in a file. Settings of a table are
// adjacent; settings without a table come first.
OptionList options_of(Config& config);

// The name, without its table, of a setting that other libraries call `name`: "discount" for
// "gamma". Empty if unknown.
std::string setting_name_of(const std::string& name);

}  // namespace shoal
