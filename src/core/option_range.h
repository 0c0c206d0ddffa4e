#pragma once

#include <string>

#include "shoal/core/option.h"

namespace shoal {

// The accepted values: "0 to 1". Not for bool and Choice.
std::string range_text(const Option& option);

}  // namespace shoal
