#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "runners/preset_names.h"
#include "runners/settings.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/config.h"

namespace shoal {
namespace {

// A file of presets/, compiled into the library.
struct File {
  std::string_view name, text;
};

constexpr File kFiles[] = {
#include "preset_files.inc"
};

const File* find(std::string_view name) {
  const auto* file = std::ranges::find(kFiles, name, &File::name);
  return file == std::end(kFiles) ? nullptr : file;
}

bool is_default(const File& file) { return file.name.starts_with(kDefaultsFolder); }

}  // namespace

bool is_preset(const std::string& name) { return find(name) != nullptr; }

// Each file begins with a comment that describes the preset.
std::vector<Preset> presets() {
  std::vector<Preset> list;
  for (const auto& file : kFiles)
    if (!is_default(file))
      list.push_back(
          {std::string(file.name), std::string(file.text.substr(2, file.text.find('\n') - 2))});
  return list;
}

Config preset(const std::string& name) {
  if (const auto* file = find(name)) {
    auto config = parse_config(std::string(file->text), "preset " + name);
    config.base = name;
    return config;
  }
  std::vector<std::string> names;
  for (const auto& file : kFiles)
    if (!is_default(file)) names.emplace_back(file.name);
  throw Error("there is no preset '{}'; the nearest is '{}'", one_line(name), nearest(name, names));
}

Config as_base(Config config) {
  if (config.schedule_steps == config.steps) config.schedule_steps = 0;
  return config;
}

Config preset_or_file(const std::string& name, const Settings& given) {
  if (find(name) != nullptr) return as_base(preset(name));
  std::error_code error;  // read_config() reports a file that cannot be accessed
  const bool file = name.find('/') != std::string::npos || name.ends_with(".toml") ||
                    std::filesystem::exists(name, error) || error;
  return as_base(file ? read_config_for(name, given) : preset(name));
}

}  // namespace shoal
