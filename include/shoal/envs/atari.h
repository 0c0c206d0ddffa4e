#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// How an Atari game is presented. The defaults are Gymnasium's AtariPreprocessing.
struct AtariOptions {
  int frame_skip = 4;  // emulated frames a step; the action is held for all of them
  int noop_max = 30;   // a game begins with 1 to this many frames of doing nothing; 0: none
  bool fire_on_reset =
      false;  // press FIRE, then the third action, for a step each, when a game or a life begins
  bool episodic_life =
      false;  // a lost life is an end for the agent (StepResult::life_lost); the game goes on
  double sticky = 0;         // chance of each frame to repeat the previous frame's action instead
  bool clip_reward = false;  // the agent sees the sign of the reward; "score" stays raw
  bool full_action_set = false;  // all 18 actions instead of those that have an effect in the game
  std::int64_t max_frames =
      108'000;       // emulated frames of a game before it is truncated: half an hour
  int screen = 84;   // height and width of an observation, 16 to 160
  bool rgb = false;  // observations in colour instead of gray
  int stack = 4;     // observations that the agent sees at once
};

// Atari games by their Gymnasium names: "ALE/Pong-v5", with every setting from `options`, none from
// the name.
//
// Observation: uint8 [screen, screen], the newest gray picture; with rgb [3, screen, screen], its
// red, its green and its blue plane, channels first as torch's convolutions want them (Gymnasium's
// order is [screen, screen, 3]). Action: one of n. Info "score": the raw reward. With fire_on_reset
// and episodic_life, the step that loses a life also presses FIRE and the third action (if the game
// has FIRE as its second action), so that the observation it writes is the beginning of the next
// life; rewards on the way count. Where a life is lost at the frame cap, the game ends there:
// terminated, and not life_lost. save() and load() continue exactly.
//
// The emulator is a library of its own, loaded when first used: $SHOAL_ALE_PLUGIN, or
// lib/shoal_ale.so beside the program's folder, or where it was built. The cartridges are *.bin
// files in $SHOAL_ROMS, or where the build found them.
//
// Throws Error for an unknown game (naming the nearest known one), an option out of range, a
// missing library or cartridge, at once: nothing of this is left to workers.
EnvFactory make_atari(const std::string& id, const AtariOptions& options = {});

// The ids of all games there are cartridges for; empty if there are none, or no emulator.
std::vector<std::string> atari_ids();

}  // namespace shoal
