#include "shoal/runners/export.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/trained_agent.h"
#include "shoal/core/error.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/files.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

struct ExportFlags {
  std::filesystem::path run;
  std::vector<std::filesystem::path> out = {"policy.pt"};
  std::string checkpoint = kCheckpointFile;
  bool half = false;
};

void require_format(const std::filesystem::path& file) {
  static const std::vector<std::string> kEndings = {".pt", ".onnx", ".safetensors"};
  require(std::ranges::count(kEndings, file.extension().string()) == 1,
          "--out: found '{}', expected a name ending in {}", file.string(),
          fmt::join(kEndings, ", "));
}

int export_command(const ExportFlags& flags) {
  for (const auto& file : flags.out) {
    require_format(file);
    require(!flags.half || file.extension() == ".safetensors",
            "--half: found --out {}, expected names ending in .safetensors", file.string());
  }
  const Config config = trained_config(flags.run, "cpu");
  at::set_num_threads(1);
  // Other programs have no use for our kernels, and bfloat16 would make the trace less exact.
  Config in_float32 = config;
  in_float32.model.precision = in_float32.agent.act_precision = Precision::kFloat32;
  const auto agent = load_agent(in_float32, flags.run, flags.checkpoint);
  const auto spec = make_env_factory(config)({})->spec();
  std::vector<std::filesystem::path> written;
  const auto add = [&](const std::filesystem::path& file) {
    if (std::ranges::count(written, file) > 0) return;
    written.push_back(file);
    print_output("{}\n", file.string());
  };
  for (const auto& file : flags.out) {
    if (file.extension() == ".safetensors")
      export_weights(*agent, config, file, flags.half);
    else
      export_policy(*agent, spec, file);
    add(file);
    if (file.extension() == ".safetensors") continue;
    auto description = file;
    description.replace_extension(".json");
    write_file(description, describe_policy(*agent, config, spec));
    add(description);
  }
  return kSuccess;
}

}  // namespace

void add_export(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ExportFlags>();
  auto* command = app.add_subcommand(
      "export", "Export a trained policy for programs without Shoal, or its weights");
  add_run(*command, flags->run, flags->checkpoint);
  command
      ->add_option("--out", flags->out,
                   "File: .pt (TorchScript), .onnx, or .safetensors (weights alone); may be "
                   "repeated. A .json file beside a policy describes inputs, outputs and "
                   "preprocessing")
      ->capture_default_str()
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--half", flags->half,
                    "Round weights to float16, for .safetensors files of half the size");
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return export_command(*flags); }; });
}

}  // namespace shoal::cli
