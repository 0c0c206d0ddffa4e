#include "src/envs/ale_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "shoal/core/error.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kNoSinglePlayer = {"combat", "joust", "maze_craze",
                                                             "warlords"};

fs::path plugin_path() {
  if (const char* chosen = std::getenv("SHOAL_ALE_PLUGIN")) return chosen;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  fs::path installed = program.parent_path().parent_path() / "lib" / "shoal_ale.so";
  return fs::exists(installed, ignored) ? installed : fs::path(SHOAL_ALE_PLUGIN_PATH);
}

const shoal_ale_api& load(const fs::path& path) {
  std::error_code ignored;
  require(fs::exists(path, ignored),
          "Atari is not available: there is no plugin '{}'. Build with -DSHOAL_WITH_ATARI=ON, or "
          "set SHOAL_ALE_PLUGIN to "
          "the path of shoal_ale.so",
          path.string());
  void* library =
      dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded: consoles may live until the end
  require(library != nullptr, "cannot load the Atari plugin: {}", library ? "" : dlerror());
  const auto get = reinterpret_cast<shoal_ale_get_api_function>(dlsym(library, SHOAL_ALE_GET_API));
  require(get != nullptr, "{} is not Shoal's Atari plugin", path.string());
  const shoal_ale_api* api = get();
  require(api->version == SHOAL_ALE_VERSION,
          "the Atari plugin {} has version {}, this program needs {}: build it again",
          path.string(), api->version, static_cast<int>(SHOAL_ALE_VERSION));
  return *api;
}

}  // namespace

const shoal_ale_api& ale_library() {
  static const shoal_ale_api& api = load(plugin_path());
  return api;
}

bool has_ale_library() {
  std::error_code ignored;
  return fs::exists(plugin_path(), ignored);
}

fs::path rom_folder() {
  const char* chosen = std::getenv("SHOAL_ROMS");
  return chosen ? chosen : SHOAL_ROMS_PATH;
}

std::string game_name(const std::string& rom) {
  std::string name;
  bool begins = true;  // a word does, after anything that is not a letter
  for (const char c : rom) {
    const auto u = static_cast<unsigned char>(c);
    if (c != '_') name += static_cast<char>(begins ? std::toupper(u) : u);
    begins = std::isalpha(u) == 0;
  }
  return name;
}

std::vector<std::string> known_roms() {
  std::vector<std::string> roms;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(rom_folder(), ignored)) {
    const fs::path& path = entry.path();
    const std::string stem = path.stem().string();
    if (path.extension() == ".bin" &&
        std::ranges::find(kNoSinglePlayer, stem) == kNoSinglePlayer.end())
      roms.push_back(stem);
  }
  std::ranges::sort(roms);
  return roms;
}

void CloseConsole::operator()(shoal_ale_console* console) const { ale_library().destroy(console); }

AleConsole open_console(const fs::path& rom) {
  std::array<char, 512> text{};
  AleConsole console(ale_library().create(rom.c_str(), {text.data(), text.size()}));
  require(console != nullptr, "cannot start the game: {}", text.data());
  return console;
}

}  // namespace shoal
