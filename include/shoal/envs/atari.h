#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// The emulator of a game: ALE with this project's processor and video chip, which give the same
// results faster, or ALE as it is.
enum class AtariEmulator : std::uint8_t { kShoal, kAle };
inline constexpr std::pair<const char*, AtariEmulator> kAtariEmulatorNames[] = {
    {"shoal", AtariEmulator::kShoal}, {"ale", AtariEmulator::kAle}};
inline const auto& names_of(AtariEmulator) { return kAtariEmulatorNames; }

// Preprocessing of an Atari game. The defaults are those of Gymnasium's AtariPreprocessing, and a
// stack of four frames.
struct AtariOptions {
  int frame_skip = 4;  // emulated frames per step; the action is repeated on all of them
  int noop_max = 30;   // a game begins with 1 to noop_max frames of no-op actions; 0: none
  bool fire_on_reset =
      false;  // at the start of a game or life, press FIRE, then the third action, one step each
  bool episodic_life =
      false;  // losing a life ends the agent's episode (StepResult::life_lost); the game continues
  double sticky = 0;  // probability per frame of repeating the previous frame's action (sticky
                      // actions)
  bool clip_reward = false;      // the agent sees the sign of the reward; "score" stays unclipped
  bool full_action_set = false;  // all 18 actions instead of the game's minimal action set
  std::int64_t max_frames = 108'000;  // emulated frames before a game is truncated: half an hour
  int screen = 84;                    // height and width of an observation, 16 to 160
  bool rgb = false;                   // observations in colour instead of gray
  int stack = 4;                      // number of stacked observations
  AtariEmulator emulator = AtariEmulator::kShoal;
};

// Atari games by their Gymnasium names, e.g. "ALE/Pong-v5". All settings come from `options`, none
// from the name.
//
// Observation: uint8 [screen, screen], the newest grayscale frame; with rgb [3, screen, screen],
// channels first as torch's convolutions expect (Gymnasium's order is [screen, screen, 3]). Action:
// one of n. Info "score": the raw reward. With fire_on_reset, the step that loses a life also
// presses FIRE and the third action (if the game's second action is FIRE), so its observation is
// the first of the next life; rewards during these frames count. If episodic_life is set and a life
// is lost at the frame limit, the game ends there: terminated, and not life_lost. save() and load()
// continue exactly.
//
// The emulator is a plugin, loaded on first use from $SHOAL_ALE_PLUGIN, lib/shoal_ale.so beside the
// program's folder, or the build folder; ALE as it is from $SHOAL_ALE_REFERENCE_PLUGIN or
// lib/shoal_ale_reference.so. Either continues what the other has saved. The ROMs are *.bin files
// in $SHOAL_ROMS, or in the folder where the build found them.
//
// Throws Error at once for an unknown game (with the nearest known name), an option out of range, a
// missing plugin or a missing ROM.
EnvFactory make_atari(const std::string& id, const AtariOptions& options = {});

// The ids of all games with a ROM; empty without the plugin or without ROMs.
std::vector<std::string> atari_ids();

}  // namespace shoal
