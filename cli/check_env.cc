#include "shoal/envs/check_env.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/allocations.h"
#include "cli/commands.h"
#include "shoal/core/error.h"
#include "shoal/envs/registry.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

struct CheckFlags {
  std::string env;
  std::int64_t steps = 1000, seed = 1;
};

// On a terminal, one line that is overwritten; elsewhere, one line every few seconds.
class ProgressLine {
 public:
  void show(const CheckEnvProgress& now) {
    if (!terminal_ && std::chrono::steady_clock::now() < next_) return;
    next_ = std::chrono::steady_clock::now() + kBetween;
    print_error("{}trial {} of {}, step {} of {}{}", terminal_ ? "\r" : "", now.trial, now.trials,
                now.step, now.steps, terminal_ ? "\x1b[K" : "\n");
    shown_ = true;
  }
  void clear() const {
    if (terminal_ && shown_) print_error("\r\x1b[K");
  }

 private:
  static constexpr std::chrono::seconds kBetween{5};
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kBetween;
  bool shown_ = false;
};

int check_env_command(const CheckFlags& flags) {
  require(flags.steps > 0, "--steps: found {}, expected at least 1", flags.steps);
  require(flags.seed >= 0, "--seed: found {}, expected 0 or more", flags.seed);
  const auto make_env = make_env_factory(flags.env);
  ProgressLine line;
  std::vector<std::string> notes;
  const auto mistakes =
      check_env(make_env, {.steps = flags.steps,
                           .seed = static_cast<std::uint64_t>(flags.seed),
                           .allocations = allocations,
                           .note = [&](const std::string& note) { notes.push_back(note); },
                           .progress = [&](const CheckEnvProgress& now) { line.show(now); }});
  line.clear();
  for (const auto& note : notes) print_output("{}: note: {}\n", flags.env, note);
  for (const auto& mistake : mistakes) print_output("{}: {}\n", flags.env, mistake);
  if (!mistakes.empty()) return kFailure;
  print_output("{}: no mistake found in {} steps\n", flags.env, flags.steps);
  return kSuccess;
}

}  // namespace

void add_check_env(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<CheckFlags>();
  auto* command = app.add_subcommand(
      "check-env", "Check that an environment meets the contract of environments");
  command->add_option("ENV", flags->env, "Name of the environment (see shoal list envs)")
      ->required();
  command->add_option("--steps", flags->steps, "Random actions per trial")->capture_default_str();
  command->add_option("--seed", flags->seed, "Seed of the environment")->capture_default_str();
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return check_env_command(*flags); }; });
}

}  // namespace shoal::cli
