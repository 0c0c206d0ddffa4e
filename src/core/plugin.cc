#include "src/core/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <system_error>

#include "shoal/core/error.h"

namespace shoal {

namespace fs = std::filesystem;

fs::path Plugin::path() const {
  if (const char* chosen = std::getenv(variable.c_str())) return chosen;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  fs::path installed = program.parent_path().parent_path() / "lib" / file;
  return fs::exists(installed, ignored) ? installed : built;
}

void* Plugin::load() const {
  const auto from = path();
  std::error_code ignored;
  require(fs::exists(from, ignored),
          "{} is not available: there is no plugin '{}'. Build with -D{}=ON, or set {} to the path "
          "of {}",
          what, from.string(), option, variable, file);
  // Never closed: what comes from it may live until the end.
  void* library = dlopen(from.c_str(), RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr,
          "cannot load the plugin for {}: {}. Run `make setup`, which installs what it needs, and "
          "build again",
          what, library ? "" : dlerror());
  void* found = dlsym(library, symbol.c_str());
  require(found != nullptr, "{} is not Shoal's plugin for {}", from.string(), what);
  return found;
}

}  // namespace shoal
