#include "cli/set_flag.h"

#include <CLI/CLI.hpp>

#include "shoal/core/error.h"
#include "shoal/core/text.h"

namespace shoal::cli {

void add_set(CLI::App& command, std::vector<std::string>& settings) {
  command
      .add_option("--set", settings,
                  "Setting as key=value (see shoal list settings); may be repeated")
      ->take_all()
      ->allow_extra_args(false);  // a preset may follow
}

std::vector<std::pair<std::string, std::string>> key_values(
    const std::vector<std::string>& settings) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& text : settings) {
    const auto equals = text.find('=');
    require(equals != std::string::npos && equals > 0, "--set: found '{}', expected key=value",
            one_line(text));
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return pairs;
}

}  // namespace shoal::cli
