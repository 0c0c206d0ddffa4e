#pragma once

#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace shoal::cli {

// Adds `--set KEY=VALUE`, which may be repeated, to a command.
void add_set(CLI::App& command, std::vector<std::string>& settings);

// The keys and values of such settings, in their order. Throws Error for one without a key.
std::vector<std::pair<std::string, std::string>> key_values(
    const std::vector<std::string>& settings);

}  // namespace shoal::cli
