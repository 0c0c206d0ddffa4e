#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"

namespace shoal::cli {

// Adds the flags --runs, --seconds and --json, which every benchmark of a part has, and runs it if
// the subcommand is chosen.
template <class Flags, class Run>
void complete_benchmark(CLI::App& command, const std::shared_ptr<Flags>& flags, Command& chosen,
                        Run run) {
  command.add_option("--runs", flags->runs, "Number of runs")->capture_default_str();
  command.add_option("--seconds", flags->seconds, "Duration of each run")->capture_default_str();
  command.add_flag("--json", flags->json, "Print the result as one line of JSON");
  command.callback(
      [flags, run, &chosen] { chosen = [flags, run](char** argv) { return run(*flags, argv); }; });
}

}  // namespace shoal::cli
