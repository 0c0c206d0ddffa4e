#pragma once

#include <filesystem>
#include <string>

#include "shoal/runners/config.h"

namespace shoal {

// Names of presets that begin with this are defaults for a kind of task, and have no env.id.
inline constexpr const char* kDefaultsFolder = "defaults/";

bool is_preset(const std::string& name);

// preset_or_file() of a file.
Config read_config_for(const std::filesystem::path& file, const Settings& given);

}  // namespace shoal
