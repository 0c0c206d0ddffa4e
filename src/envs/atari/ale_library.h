#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ale_plugin.h"

namespace shoal {

// Loads the plugin into this process, once. Throws Error if it is not there or of another version.
const shoal_ale_api& ale_library();
// Whether there is a plugin to load.
bool has_ale_library();

// Where the cartridges are expected. The folder may not exist.
std::filesystem::path rom_folder();

// "space_invaders" -> "SpaceInvaders", as Gymnasium names games.
std::string game_name(const std::string& rom);
// The cartridges in the folder that ALE can play with one player, sorted; without ".bin".
std::vector<std::string> known_roms();

struct CloseConsole {
  void operator()(shoal_ale_console* console) const;
};
using AleConsole = std::unique_ptr<shoal_ale_console, CloseConsole>;

// Puts a cartridge into a new console. Throws Error if the plugin refuses it.
AleConsole open_console(const std::filesystem::path& rom);

}  // namespace shoal
