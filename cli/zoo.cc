#include "shoal/runners/zoo.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "cli/commands.h"
#include "shoal/core/error.h"
#include "shoal/runners/export.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

int zoo_command() {
  const auto policies = zoo();
  require(!policies.empty(), "there is no policy in {}", zoo_folder().string());
  for (const auto& [name, file] : policies) {
    const auto config = weights_config(file);
    // A file does not say where the run reached its stop_return.
    print_output("zoo:{:<28} {:<28} {:<6} {:>7} {:>10} steps\n", name, config.env_id, config.algo,
                 std::isfinite(config.stop_return) ? "at most" : "", config.steps);
  }
  print_output("watch one: shoal play zoo:{} --live\n", policies.front().name);
  return kSuccess;
}

}  // namespace

void add_zoo(CLI::App& app, Command& chosen) {
  auto* command = app.add_subcommand("zoo", "List the trained policies that come with Shoal");
  command->callback([&chosen] { chosen = [](char**) { return zoo_command(); }; });
}

}  // namespace shoal::cli
