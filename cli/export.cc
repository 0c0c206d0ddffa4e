#include "shoal/runners/export.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/trained_agent.h"
#include "shoal/core/error.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/checkpoint_files.h"

namespace shoal::cli {
namespace {

struct ExportFlags {
  std::filesystem::path run, out = "policy.pt";
  std::string checkpoint = kCheckpointFile;
};

int export_command(const ExportFlags& flags) {
  require(flags.out.extension() != ".json",
          "--out: found {}, expected another suffix, e.g. .pt: the .json file is the description",
          flags.out.string());
  const Config config = trained_config(flags.run, "cpu");
  at::set_num_threads(1);
  const auto agent = load_agent(config, flags.run, flags.checkpoint);
  const auto spec = make_env_factory(config)({})->spec();
  export_policy(*agent, spec, flags.out);
  auto description = flags.out;
  description.replace_extension(".json");
  write_file(description, describe_policy(config, spec));
  fmt::print("{}\n{}\n", flags.out.string(), description.string());
  return kSuccess;
}

}  // namespace

void add_export(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ExportFlags>();
  auto* command = app.add_subcommand(
      "export", "Export a trained policy as TorchScript, which runs without Shoal");
  command->add_option("RUN", flags->run, "Run folder")->type_name("")->required();
  command
      ->add_option("--out", flags->out,
                   "TorchScript file; a .json file beside it describes inputs, outputs and "
                   "preprocessing")
      ->capture_default_str();
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "Name of the checkpoint file in the run folder")
      ->capture_default_str();
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return export_command(*flags); }; });
}

}  // namespace shoal::cli
