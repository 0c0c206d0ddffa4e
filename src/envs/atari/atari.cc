#include "shoal/envs/atari.h"

#include <algorithm>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/envs/atari/ale_library.h"
#include "src/envs/atari/atari_env.h"

namespace shoal {
namespace {

std::string id_of(const std::string& rom) { return "ALE/" + game_name(rom) + "-v5"; }

void check(const std::string& id, const AtariOptions& o) {
  require(o.frame_skip >= 1, "{}: frame_skip is {}; expected at least 1", id, o.frame_skip);
  require(o.noop_max >= 0, "{}: noop_max is {}; expected 0 or more", id, o.noop_max);
  require(o.sticky >= 0 && o.sticky < 1, "{}: sticky is {}; expected a number in [0, 1)", id,
          o.sticky);
  require(o.max_frames > o.noop_max, "{}: max_frames is {}; expected more than noop_max ({})", id,
          o.max_frames, o.noop_max);
  require(o.screen >= 16 && o.screen <= 160, "{}: screen is {}; expected 16 to 160", id, o.screen);
  require(o.stack >= 1, "{}: stack is {}; expected at least 1", id, o.stack);
}

std::string rom_of(const std::string& id) {
  const std::vector<std::string> roms = known_roms();
  require(!roms.empty(),
          "{}: there are no ROMs (*.bin) in '{}'. Run `make setup`, or set SHOAL_ROMS to "
          "their folder",
          id, rom_folder().string());
  for (const std::string& rom : roms)
    if (id_of(rom) == id) return rom;
  throw Error("unknown Atari game '{}'; did you mean '{}'?", id, nearest(id, atari_ids()));
}

}  // namespace

EnvFactory make_atari(const std::string& id, const AtariOptions& options) {
  check(id, options);
  const auto& ale = ale_library(options.emulator);
  const AtariEnv::Make make{id, rom_folder() / (rom_of(id) + ".bin"), options};
  open_console(ale, make.rom);
  return [make](const EnvContext& context) { return std::make_unique<AtariEnv>(make, context); };
}

std::vector<std::string> atari_ids() {
  std::vector<std::string> ids;
  if (!has_ale_library()) return ids;
  for (const std::string& rom : known_roms()) ids.push_back(id_of(rom));
  return ids;
}

}  // namespace shoal
