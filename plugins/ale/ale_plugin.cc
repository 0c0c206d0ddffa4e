// SPDX-License-Identifier: MIT
#include "ale_plugin.h"

#include <ale/ale_interface.hpp>
#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "packed_frame.h"
#include "tia_state.h"

static_assert(kTiaPixels % kLine == 0);

struct shoal_ale_console {
  ale::ALEInterface emulator;
};

namespace {

using Console = shoal_ale_console;

void report(shoal_ale_error error, const std::string& text) {
  if (error.size == 0) return;
  const std::size_t n = std::min(text.size(), error.size - 1);
  std::memcpy(error.text, text.data(), n);
  error.text[n] = '\0';
}

// ALE exits the process on an unusable file, so everything that it checks is checked here first.
std::string objection(const std::string& rom) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(rom, ignored)) return "no such file: " + rom;
  if (!ale::ALEInterface::isSupportedROM(rom)) return rom + " is not a game that ALE supports";
  return {};
}

// Runs `body`; if it throws, reports the message and returns false. Exceptions must not cross a C
// interface.
template <class Body>
bool guarded(shoal_ale_error error, const Body& body) {
  try {
    body();
    return true;
  } catch (const std::exception& e) {
    report(error, e.what());
  } catch (...) {
    report(error, "unknown exception");
  }
  return false;
}

Console* create(const char* rom, shoal_ale_error error) {
  std::unique_ptr<Console> console;
  const bool ok = guarded(error, [&] {
    ale::Logger::setMode(ale::Logger::Error);
    const std::string found = objection(rom);
    if (!found.empty()) throw std::runtime_error(found);
    console = std::make_unique<Console>();
    // ALE's generator only serves its own sticky actions, which are unused; without a seed it would
    // read the clock.
    console->emulator.setInt("random_seed", 0);
    console->emulator.setFloat("repeat_action_probability", 0);
    console->emulator.loadROM(rom);
  });
  return ok ? console.release() : nullptr;
}

void destroy(Console* console) { delete console; }

shoal_ale_frame frame(Console* console, int reward) {
  return {reward, console->emulator.lives(), console->emulator.game_over(false) ? 1 : 0};
}

shoal_ale_frame reset(Console* console) {
  console->emulator.reset_game();
  return frame(console, 0);
}

shoal_ale_frame act(Console* console, int action) {
  const bool known = action >= 0 && action < SHOAL_ALE_MAX_ACTIONS;
  return frame(console, console->emulator.act(known ? static_cast<ale::Action>(action)
                                                    : ale::PLAYER_A_NOOP));
}

int actions(Console* console, int full, int* codes) {
  const ale::ActionVect set =
      full ? console->emulator.getLegalActionSet() : console->emulator.getMinimalActionSet();
  return static_cast<int>(std::copy(set.begin(), set.end(), codes) - codes);
}

void screen_size(Console* console, int* height, int* width) {
  *height = static_cast<int>(console->emulator.getScreen().height());
  *width = static_cast<int>(console->emulator.getScreen().width());
}

const std::uint8_t* screen(Console* console) { return console->emulator.getScreen().getArray(); }

void palette(Console* console, std::uint8_t* gray, std::uint8_t (*rgb)[3]) {
  std::uint8_t colours[128];
  for (int i = 0; i < 128; ++i) colours[i] = static_cast<std::uint8_t>(2 * i);
  auto& table = console->emulator.theOSystem->colourPalette();
  table.applyPaletteGrayscale(gray, colours, sizeof colours);
  table.applyPaletteRGB(rgb[0], colours, sizeof colours);
}

void ram(Console* console, std::uint8_t* bytes) {
  const ale::ALERAM& memory = console->emulator.getRAM();
  std::copy_n(memory.array(), SHOAL_ALE_RAM_BYTES, bytes);
}

ale::stella::TIA& tia(Console* console) {
  return dynamic_cast<ale::stella::TIA&>(console->emulator.theOSystem->console().mediaSource());
}

std::size_t save(Console* console, std::uint8_t* bytes, std::size_t capacity) {
  std::string state;
  const bool ok = guarded({}, [&] {
    const auto video = std::make_unique<TiaState>();
    save_tia(tia(console), *video);
    state.assign(reinterpret_cast<const char*>(video.get()), kTiaNumbers);
    pack(video->current, state);
    pack(video->previous, state);
    state += console->emulator.cloneSystemState().serialize();
    if (state.size() <= capacity) std::ranges::copy(state, bytes);
  });
  return ok ? state.size() : 0;
}

int load(Console* console, const std::uint8_t* bytes, std::size_t size) {
  return guarded({}, [&] {
    if (size < kTiaNumbers) throw std::runtime_error("invalid saved state");
    const auto video = std::make_unique<TiaState>();
    std::memcpy(video.get(), bytes, kTiaNumbers);
    std::span rest(bytes + kTiaNumbers, size - kTiaNumbers);
    unpack(rest, video->current);
    unpack(rest, video->previous);
    const std::string state(reinterpret_cast<const char*>(rest.data()), rest.size());
    console->emulator.restoreSystemState(ale::ALEState(state));
    load_tia(tia(console), *video);
  });
}

constexpr shoal_ale_api kApi = {SHOAL_ALE_VERSION, create, destroy, reset, act,  actions,
                                screen_size,       screen, palette, ram,   save, load};

}  // namespace

extern "C" __attribute__((visibility("default"))) const shoal_ale_api* shoal_ale_get_api(void) {
  return &kApi;
}
