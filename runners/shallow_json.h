#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "shoal/core/error.h"

namespace shoal {

// The header of a file that may be damaged. Throws Error for what is nested deeper than `deepest`,
// which would take much memory, and nlohmann's exception for what is not JSON.
inline nlohmann::json shallow_json(const std::string& text, int deepest) {
  return nlohmann::json::parse(text, [deepest](int depth, auto, const auto&) {
    require(depth <= deepest, "its header is damaged");
    return true;
  });
}

}  // namespace shoal
