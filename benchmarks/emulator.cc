#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/benchmarks.h"
#include "benchmarks/by_turns.h"
#include "shoal/core/rng.h"
#include "src/envs/atari/ale_library.h"

namespace shoal::cli {
namespace {

struct EmulatorFlags {
  std::vector<std::string> games = {"pong",    "breakout", "beam_rider", "space_invaders",
                                    "enduro",  "qbert",    "seaquest",   "ms_pacman",
                                    "freeway", "asteroids"};
  int frames = 6000, runs = 5;
};

// Frames per second of one console with random actions, new games included.
class Console {
 public:
  Console(AtariEmulator emulator, const std::string& game)
      : ale_(ale_library(emulator)), console_(open_console(ale_, rom_folder() / (game + ".bin"))) {
    ale_.reset(console_.get());
    actions_.resize(static_cast<std::size_t>(ale_.actions(console_.get(), 0, actions_.data())));
  }

  double run(int frames) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < frames; ++i) {
      const auto action = rng_.integer(0, std::ssize(actions_));
      if (ale_.act(console_.get(), actions_[static_cast<std::size_t>(action)]).game_over != 0)
        ale_.reset(console_.get());
    }
    return frames / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  const shoal_ale_api& ale_;
  AleConsole console_;
  std::vector<int> actions_ = std::vector<int>(SHOAL_ALE_MAX_ACTIONS);
  Rng rng_{1};
};

int bench_emulator(const EmulatorFlags& flags) {
  std::vector<double> ratios;
  fmt::print("{:<16} {:>10} {:>10} {:>8}\n", "frames/s", "ale", "shoal", "ratio");
  for (const auto& game : flags.games) {
    Console ale(AtariEmulator::kAle, game), own(AtariEmulator::kShoal, game);
    const auto found = by_turns(
        flags.runs, [&] { return ale.run(flags.frames); }, [&] { return own.run(flags.frames); });
    ratios.push_back(found.ratio);
    fmt::print("{:<16} {:>10.0f} {:>10.0f} {:>8.2f}\n", game, found.peer, found.own, found.ratio);
  }
  double sum = 0;
  for (const double ratio : ratios) sum += ratio;
  fmt::print("mean of the ratios: {:.2f}\n", sum / static_cast<double>(ratios.size()));
  return kSuccess;
}

}  // namespace

void add_bench_emulator(CLI::App& bench, Command& chosen) {
  auto* command = bench.add_subcommand(
      "emulator", "Frames per second of the Atari emulator beside ALE as it is, by turns");
  const auto flags = std::make_shared<EmulatorFlags>();
  command->add_option("--games", flags->games, "Names of cartridges");
  command->add_option("--frames", flags->frames, "Frames of a run")->check(CLI::PositiveNumber);
  command->add_option("--runs", flags->runs, "Runs of each emulator")->check(CLI::PositiveNumber);
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return bench_emulator(*flags); }; });
}

}  // namespace shoal::cli
