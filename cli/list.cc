#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/envs/registry.h"
#include "shoal/runners/config.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

void print_lines(const std::vector<std::string>& lines) {
  for (const auto& line : lines) print_output("{}\n", line);
}

int list_command(const std::string& what) {
  if (what == "envs") {
    print_lines(env_ids());
    print_output("gymnasium:ID\npettingzoo:MODULE\n");
  } else if (what == "algos") {
    for (const auto& algo : AlgoSpecs())
      print_output("{:<12} {}\n", algo->name(), algo->description());
  } else if (what == "models") {
    print_lines(model_names());
  } else if (what == "samplers") {
    print_lines(sampler_names());
  } else if (what == "presets") {
    for (const auto& [name, doc] : presets()) print_output("{:<28} {}\n", name, doc);
  } else if (what == "settings") {
    for (const auto& [key, value, doc] : setting_docs())
      print_output("{:<28} {:<14} {}\n", key, value, doc);
  } else {
    throw Error("cannot list '{}'; the nearest is '{}'", one_line(what),
                nearest(what, {"envs", "algos", "models", "samplers", "presets", "settings"}));
  }
  return kSuccess;
}

}  // namespace

void add_list(CLI::App& app, Command& chosen) {
  auto what = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      "list", "List environments, algorithms, models, samplers, presets or settings");
  command->add_option("what", *what, "envs, algos, models, samplers, presets or settings")
      ->required();
  command->callback([what, &chosen] { chosen = [what](char**) { return list_command(*what); }; });
}

}  // namespace shoal::cli
