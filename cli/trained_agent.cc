#include "cli/trained_agent.h"

#include <CLI/CLI.hpp>
#include <numeric>

#include "shoal/runners/trained_agent.h"
#include "src/core/print.h"

namespace shoal::cli {

Config trained_config(const std::filesystem::path& run, const std::string& device) {
  Config config = shoal::trained_config(run);
  if (!device.empty()) set(config, "device", device);
  validate(config);
  return config;
}

void add_run(CLI::App& command, std::filesystem::path& run, std::string& checkpoint) {
  command
      .add_option("RUN", run,
                  "Run folder, checkpoint, .safetensors file of `shoal export`, or zoo:NAME")
      ->type_name("")
      ->required();
  command.add_option("--checkpoint", checkpoint, "Name of the checkpoint file in the run folder")
      ->capture_default_str();
}

void add_acting(CLI::App& command, std::string& device, bool& sample) {
  command.add_option("--device", device,
                     "Device: cpu, cuda or cuda:N; default: the device of the run");
  command.add_flag("--sample", sample, "Sample actions as in training; default: greedy actions");
}

std::unique_ptr<Agent> load_agent(const Config& config, const std::filesystem::path& run,
                                  const std::string& checkpoint) {
  auto agent = make_agent(config);
  restore_trained(run, *agent, checkpoint);
  return agent;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void print_result(const EvaluationResult& result) {
  print_output("return {:.2f} ± {:.2f} over {} episodes\n", result.mean_return, result.std_return,
               result.episodes);
  for (const auto& [name, values] : result.infos)
    print_output("{} {:.4g}\n", name, mean_of(values));
}

}  // namespace shoal::cli
