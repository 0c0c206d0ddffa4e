#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "shoal/runners/config.h"
#include "shoal/runners/evaluation.h"

namespace shoal::cli {

// The configuration of a run, on `device` unless it is empty.
// `run`: see shoal/runners/trained_agent.h. Throws Error if there is no such run.
Config trained_config(const std::filesystem::path& run, const std::string& device);

// The agent of the run, on the CPU, with the parameters of one of its checkpoints, or those of the
// file of weights. Throws Error if they cannot be used.
std::unique_ptr<Agent> load_agent(const Config& config, const std::filesystem::path& run,
                                  const std::string& checkpoint);

// Prints "return 20.10 ± 0.30 over 10 episodes".
double mean_of(const std::vector<double>& values);
void print_result(const EvaluationResult& result);

}  // namespace shoal::cli
