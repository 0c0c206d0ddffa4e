#include "src/core/plugin.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <system_error>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {

namespace fs = std::filesystem;

namespace {

// The program or library that contains this code: that of a module for Python is the module.
struct Self {
  fs::path file;
  const char* name;  // for dlopen()
};

Self find_self() {
  Dl_info info{};
  link_map* map = nullptr;
  const bool found = dladdr1(reinterpret_cast<void*>(&find_self), &info,
                             reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // The dynamic linker gives the program an empty name.
  if (found && map != nullptr && map->l_name[0] != 0) return {map->l_name, map->l_name};
  std::error_code ignored;
  return {fs::read_symlink("/proc/self/exe", ignored), nullptr};
}

// The folders lib, and then the dynamic linker's search path: the run path includes the plugin
// folder of the build or installation that this code was linked with.
std::vector<fs::path> search_path() {
  const auto self = find_self();
  const auto folder = self.file.parent_path();
  std::vector<fs::path> folders{folder / "lib", folder.parent_path() / "lib"};
  void* handle = dlopen(self.name, RTLD_LAZY | RTLD_NOLOAD);
  Dl_serinfo size;
  if (handle == nullptr || dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::vector<std::byte> memory(size.dls_size);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.data());
  if (dlinfo(handle, RTLD_DI_SERINFOSIZE, info) != 0 || dlinfo(handle, RTLD_DI_SERINFO, info) != 0)
    return folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

}  // namespace

fs::path own_binary() { return find_self().file; }

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
  require(
      fs::exists(from, ignored),
      "{} is not available: there is no plugin '{}'. Run `make command`, build with -D{}=ON, or "
      "set {} to the path of {}",
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
