#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal::cli {

// A trained policy that comes with the command: a file of weights with its settings.
struct ZooPolicy {
  std::string name;
  std::filesystem::path file;
};

// All of them, by name: of the folder zoo beside the Python module, of share/shoal/zoo beside the
// folder of the program, or of the source tree of a build. Empty if there is none.
std::vector<ZooPolicy> zoo();

// The file of "zoo:NAME"; any other word is a path already. Throws Error if there is no such
// policy.
std::filesystem::path run_or_zoo(const std::string& word);

}  // namespace shoal::cli
