#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal {

// A trained policy that comes with Shoal: a file of weights with its settings.
struct ZooPolicy {
  std::string name;
  std::filesystem::path file;
};

// The folder zoo beside the Python module, share/shoal/zoo beside the folder of the program, or
// that of the source tree of a build.
std::filesystem::path zoo_folder();

// All policies in it, by name. Empty if there is none.
std::vector<ZooPolicy> zoo();

// Whether it is "zoo:NAME", of any name.
bool is_in_zoo(const std::string& word);

// The file of "zoo:NAME"; any other word is a path already. Throws Error if there is no such
// policy.
std::filesystem::path run_or_zoo(const std::string& word);

}  // namespace shoal
