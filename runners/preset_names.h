#pragma once

#include <string>

namespace shoal {

// Names of presets that begin with this are defaults for a kind of task, and have no env.id.
inline constexpr const char* kDefaultsFolder = "defaults/";

bool is_preset(const std::string& name);

}  // namespace shoal
