#include "cli/trained_agent.h"

#include <numeric>

#include "cli/zoo.h"
#include "shoal/core/error.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/export.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

bool is_weights(const std::filesystem::path& run) { return run.extension() == ".safetensors"; }

}  // namespace

Config trained_config(const std::filesystem::path& run, const std::string& device) {
  const auto found = run_or_zoo(run);
  Config config = is_weights(found) ? weights_config(found) : read_run_config(found);
  if (!device.empty()) set(config, "device", device);
  validate(config);
  return config;
}

std::unique_ptr<Agent> load_agent(const Config& config, const std::filesystem::path& run,
                                  const std::string& checkpoint) {
  auto agent = make_agent(config);
  if (const auto found = run_or_zoo(run); is_weights(found)) {
    require(checkpoint == kCheckpointFile,
            "--checkpoint: found '{}', but {} is a file of weights; expected a run folder",
            checkpoint, run.string());
    import_weights(*agent, found);
    return agent;
  }
  const auto file = run / checkpoint;
  restore_agent(read_checkpoint(file), file, *agent);
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
