#include "cli/trained_agent.h"

#include <fmt/format.h>

#include "shoal/runners/checkpoint.h"

namespace shoal::cli {

Config trained_config(const std::filesystem::path& run, const std::string& device) {
  Config config = whole_games(read_run_config(run));
  if (!device.empty()) set(config, "device", device);
  validate(config);
  return config;
}

std::unique_ptr<Agent> load_agent(const Config& config, const std::filesystem::path& run,
                                  const std::string& checkpoint) {
  auto agent = make_agent(config);
  const auto file = run / checkpoint;
  restore_agent(read_checkpoint(file), file, *agent);
  return agent;
}

void print_result(const EvaluationResult& result) {
  fmt::print("return {:.2f} ± {:.2f} over {} episodes\n", result.mean_return, result.std_return,
             result.episodes);
}

}  // namespace shoal::cli
