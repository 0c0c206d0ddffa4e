#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shoal/core/option.h"
#include "shoal/runners/config.h"

namespace shoal {

// All settings of a run, bound to `config`. Reading, writing, --set, the help text and validate()
// use this list. The part of a key before the dot is its table in a file. Settings of a table are
// adjacent; settings without a table come first.
OptionList options_of(Config& config);

// "ppo" for "ppo.clip"; empty for a setting without a table.
std::string table_of_key(const std::string& key);

// Whether the algorithm of `config` uses the settings of a table. Tables that belong to no
// algorithm are used by all.
bool algo_has_table(const Config& config, const std::string& table);

// The names, without their tables, of settings that other libraries call `name`: "discount" for
// "gamma".
std::vector<std::string> setting_names_of(const std::string& name);

// Sets all, `algo` first: an unknown key is looked for among the settings of the algorithm.
void set_all(Config& config, const Settings& settings);

bool is_builtin_model(const std::string& name);

// preset_or_file() of a file.
Config read_config_for(const std::filesystem::path& file, const Settings& given);

}  // namespace shoal
