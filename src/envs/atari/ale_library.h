#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ale_plugin.h"
#include "shoal/envs/atari.h"

namespace shoal {

// Loads the plugin on the first call. Throws Error if it is missing or has another version.
const shoal_ale_api& ale_library(AtariEmulator emulator);
// Whether the plugin of AtariEmulator::kShoal exists.
bool has_ale_library();

// The folder of the ROMs. It may not exist.
std::filesystem::path rom_folder();

// "space_invaders" -> "SpaceInvaders", the name in Gymnasium.
std::string game_name(const std::string& rom);
// The ROMs in the folder that ALE can play with one player, sorted; without ".bin".
std::vector<std::string> known_roms();

struct CloseConsole {
  const shoal_ale_api* ale = nullptr;
  void operator()(shoal_ale_console* console) const;
};
using AleConsole = std::unique_ptr<shoal_ale_console, CloseConsole>;

// Loads a ROM into a new console. Throws Error if the plugin rejects it.
AleConsole open_console(const shoal_ale_api& ale, const std::filesystem::path& rom);

}  // namespace shoal
