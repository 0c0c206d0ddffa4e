#pragma once

#include <string>

#include "shoal/core/option.h"
#include "shoal/runners/config.h"

namespace shoal {

// All settings of a run, bound to `config`. Reading, writing, --set, the help text and validate()
// use this list. The part of a key before the dot is its table in a file. Settings of a table are
// adjacent; settings without a table come first.
OptionList options_of(Config& config);

// What other libraries call `elsewhere`, without its table: "gamma" is "discount". Empty if
// unknown.
std::string word_here(const std::string& elsewhere);

}  // namespace shoal
