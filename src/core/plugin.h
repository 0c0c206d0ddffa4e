#pragma once

#include <filesystem>
#include <string>

namespace shoal {

// A library that is loaded when it is first needed.
struct Plugin {
  std::string what;             // "Atari"
  std::string file;             // "shoal_ale.so"
  std::string variable;         // of the environment: the path of another one
  std::filesystem::path built;  // where this build puts it
  std::string option;           // of CMake, which builds it
  std::string symbol;           // its only function

  // $variable, or lib/file beside the program's folder, or where it was built.
  std::filesystem::path path() const;
  // Loads it into this process for good and finds the symbol. Throws Error if it is not there.
  void* load() const;
};

}  // namespace shoal
