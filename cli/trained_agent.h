#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "shoal/runners/config.h"
#include "shoal/runners/evaluation.h"

namespace CLI {
class App;
}

namespace shoal::cli {

// The configuration of a run, on `device` unless it is empty.
// `run`: see shoal/runners/trained_agent.h. Throws Error if there is no such run.
Config trained_config(const std::filesystem::path& run, const std::string& device);

// The argument RUN and the option --checkpoint.
void add_run(CLI::App& command, std::filesystem::path& run, std::string& checkpoint);
// The options --device and --sample.
void add_acting(CLI::App& command, std::string& device, bool& sample);

// The agent of the run, on the CPU, with the parameters of one of its checkpoints, or those of the
// file of weights. Throws Error if they cannot be used.
std::unique_ptr<Agent> load_agent(const Config& config, const std::filesystem::path& run,
                                  const std::string& checkpoint);

double mean_of(const std::vector<double>& values);
// Prints "return 20.10 ± 0.30 over 10 episodes".
void print_result(const EvaluationResult& result);

}  // namespace shoal::cli
