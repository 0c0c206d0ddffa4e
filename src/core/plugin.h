#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace shoal {

// The file of the program or library that contains this code: for Python that of the module.
std::filesystem::path own_binary();

// A shared library that is loaded on first use. It exports one function, which returns a pointer to
// a struct of functions whose first member is `int version`.
struct Plugin {
  std::string name;      // "Atari"
  std::string file;      // "shoal_ale.so"
  std::string variable;  // environment variable with the path of an alternative
  std::string option;    // CMake option that builds it
  std::string symbol;    // the exported function
  int version;           // required version

  // $variable, else `file` in the folder lib inside or beside that of the program or library that
  // contains this code, else `file` in its run path. Empty if there is none.
  std::filesystem::path path() const;
  bool exists() const;

  // Loads the plugin; it is never unloaded. Throws Error if it is missing or has another version.
  template <class Api>
  const Api& load() const {
    static_assert(offsetof(Api, version) == 0);
    return *static_cast<const Api*>(load_api());
  }

 private:
  const void* load_api() const;
};

}  // namespace shoal
