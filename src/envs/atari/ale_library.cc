#include "src/envs/atari/ale_library.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "shoal/core/error.h"
#include "src/core/plugin.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kNoSinglePlayer = {"combat", "joust", "maze_craze",
                                                             "warlords"};

Plugin plugin(const char* file, const char* variable) {
  return {.name = "Atari",
          .file = file,
          .variable = variable,
          .option = "SHOAL_WITH_ATARI",
          .symbol = SHOAL_ALE_GET_API,
          .version = SHOAL_ALE_VERSION};
}

Plugin own_plugin() { return plugin("shoal_ale.so", "SHOAL_ALE_PLUGIN"); }

}  // namespace

const shoal_ale_api& ale_library(AtariEmulator emulator) {
  if (emulator == AtariEmulator::kShoal) {
    static const auto& own = own_plugin().load<shoal_ale_api>();
    return own;
  }
  static const auto& ale =
      plugin("shoal_ale_reference.so", "SHOAL_ALE_REFERENCE_PLUGIN").load<shoal_ale_api>();
  return ale;
}

bool has_ale_library() { return own_plugin().exists(); }

fs::path rom_folder() {
  const char* chosen = std::getenv("SHOAL_ROMS");
  return chosen ? chosen : SHOAL_ROMS_PATH;
}

std::string game_name(const std::string& rom) {
  std::string name;
  bool begins = true;  // a word begins after every non-letter
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

void CloseConsole::operator()(shoal_ale_console* console) const { ale->destroy(console); }

AleConsole open_console(const shoal_ale_api& ale, const fs::path& rom) {
  std::array<char, 512> text{};
  AleConsole console(ale.create(rom.c_str(), {text.data(), text.size()}), {&ale});
  require(console != nullptr, "cannot start the game: {}", text.data());
  return console;
}

}  // namespace shoal
