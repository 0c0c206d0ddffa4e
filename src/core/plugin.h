#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace shoal {

// A library that is loaded when it is first needed. It has one function, which returns a pointer to
// a struct of functions whose first member is `int version`.
struct Plugin {
  std::string name;      // "Atari"
  std::string file;      // "shoal_ale.so"
  std::string variable;  // of the environment: the path of another one
  std::string option;    // of CMake, which builds it
  std::string symbol;    // its only function
  int version;           // that this program needs

  // $variable; or lib/file beside the program's folder, or in a folder of the program's run path.
  // Empty if there is none.
  std::filesystem::path path() const;
  bool exists() const;

  // Loads it into this process for good. Throws Error if it is not there, or of another version.
  template <class Api>
  const Api& load() const {
    static_assert(offsetof(Api, version) == 0);
    return *static_cast<const Api*>(load_api());
  }

 private:
  const void* load_api() const;
};

}  // namespace shoal
