#include "shoal/envs/check_env.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "shoal/core/error.h"
#include "shoal/envs/registry.h"
#include "src/app/allocations.h"
#include "src/app/commands.h"

namespace shoal::app {
namespace {

struct CheckFlags {
  std::string env;
  std::int64_t steps = 1000, seed = 1;
};

int check_env_command(const CheckFlags& flags) {
  require(flags.steps > 0, "--steps: found {}, expected at least 1", flags.steps);
  require(flags.seed >= 0, "--seed: found {}, expected 0 or more", flags.seed);
  const auto mistakes =
      check_env(make_env_factory(flags.env), {.steps = flags.steps,
                                              .seed = static_cast<std::uint64_t>(flags.seed),
                                              .allocations = allocations});
  for (const auto& mistake : mistakes) fmt::print("{}: {}\n", flags.env, mistake);
  if (!mistakes.empty()) return kFailure;
  fmt::print("{}: no mistake was found in {} steps\n", flags.env, flags.steps);
  return kSuccess;
}

}  // namespace

void add_check_env(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<CheckFlags>();
  auto* command = app.add_subcommand("check-env", "Look for mistakes in an environment");
  command->add_option("ENV", flags->env, "Its name (see shoal list envs)")->required();
  command->add_option("--steps", flags->steps, "Random actions in each trial")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Of the environment")->capture_default_str();
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return check_env_command(*flags); }; });
}

}  // namespace shoal::app
