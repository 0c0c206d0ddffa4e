#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "shoal/envs/atari.h"
#include "src/envs/atari/ale_library.h"
#include "src/envs/atari/atari_frames.h"

namespace shoal {

// The emulator's properties of a game.
struct AtariGame {
  AtariGame(const shoal_ale_api& ale, shoal_ale_console* console, bool full_action_set);
  int height = 0, width = 0;
  std::vector<int> actions;
  AtariFrames::Palette gray{};
  std::array<AtariFrames::Palette, 3> rgb{};
};

class AtariEnv : public Env {
 public:
  struct Make {
    std::string id;
    std::filesystem::path rom;
    AtariOptions options;
  };
  AtariEnv(const Make& make, const EnvContext& context);

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override;
  StepResult step(ArraysIn action, StepOut out) override;
  bool save(std::vector<std::byte>& bytes) const override;
  bool load(std::span<const std::byte> bytes) override;
  bool render(Image& image) override;

 private:
  // State to save in addition to the emulator and the frames.
  struct Position {
    std::uint64_t rng_key, rng_counter;
    std::int64_t frames;
    std::int32_t lives, held_action;
  };
  // Totals over the frames of a step.
  struct Skipped {
    float reward = 0;
    bool game_over = false, life_lost = false;
  };

  std::vector<std::byte> emulator_state() const;
  void restore_emulator(std::span<const std::byte> state);
  void new_game();
  void do_nothing();
  void press_fire();
  bool fires() const;
  shoal_ale_frame emulate(int action);
  bool out_of_time() const { return frames_ >= options_.max_frames; }
  Skipped skip(int action);
  void write(float score, const StepOut& out);

  AtariOptions options_;
  const shoal_ale_api& ale_;
  AleConsole console_;
  AtariGame game_;
  EnvSpec spec_;
  AtariFrames frames_of_;
  Rng rng_;
  std::vector<std::byte> switched_on_;  // the emulator's state at power-on
  std::int64_t frames_ = 0;             // emulated in this game
  int lives_ = 0;
  int held_action_ = 0;  // code of the last frame's action, for sticky actions
};

}  // namespace shoal
