#include "src/core/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <system_error>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {

namespace fs = std::filesystem;

namespace {

// The folder lib beside that of the program, and then the dynamic linker's search path for it: its
// run path includes the plugin folder of the build or installation that it was linked with.
std::vector<fs::path> search_path() {
  std::error_code ignored;
  const auto self = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<fs::path> folders{self.parent_path().parent_path() / "lib"};
  void* program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size;
  if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::vector<std::byte> memory(size.dls_size);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.data());
  if (dlinfo(program, RTLD_DI_SERINFOSIZE, info) != 0 ||
      dlinfo(program, RTLD_DI_SERINFO, info) != 0)
    return folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

}  // namespace

fs::path Plugin::path() const {
  if (const char* chosen = std::getenv(variable.c_str())) return chosen;
  std::error_code ignored;
  static const std::vector<fs::path> kFolders = search_path();
  for (const auto& folder : kFolders)
    if (fs::exists(folder / file, ignored)) return folder / file;
  return {};
}

bool Plugin::exists() const {
  std::error_code ignored;
  return fs::exists(path(), ignored);
}

const void* Plugin::load_api() const {
  const auto from = path();
  std::error_code ignored;
  require(fs::exists(from, ignored),
          "{} is not available: there is no plugin '{}'. Build with -D{}=ON, or set {} to the path "
          "of {}",
          name, from.empty() ? file : from.string(), option, variable, file);
  // Never closed: objects from the plugin may live until the process ends.
  void* library = dlopen(from.c_str(), RTLD_NOW | RTLD_LOCAL);
  require(
      library != nullptr,
      "cannot load the plugin for {}: {}. Run `make setup`, which installs its dependencies, and "
      "build again",
      name, library ? "" : dlerror());
  void* found = dlsym(library, symbol.c_str());
  require(found != nullptr, "{} is not the Shoal plugin for {}", from.string(), name);
  const void* api = reinterpret_cast<const void* (*)()>(found)();
  const int its_version = *static_cast<const int*>(api);
  require(its_version == version, "the {} plugin {} has version {}, expected {}; rebuild it", name,
          from.string(), its_version, version);
  return api;
}

}  // namespace shoal
