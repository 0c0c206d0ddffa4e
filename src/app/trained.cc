#include "src/app/trained.h"

#include <fmt/format.h>

#include "shoal/data/saved.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/device.h"

namespace shoal::app {

Config trained_config(const std::filesystem::path& run, const std::string& device) {
  Config config = read_run_config(run);
  if (!device.empty()) set(config, "device", device);
  config.env.atari.episodic_life = false;  // whole games
  validate(config);
  return config;
}

std::unique_ptr<ActorCritic> load_agent(const Config& config, const std::filesystem::path& run,
                                        const std::string& checkpoint) {
  auto agent = make_agent(config);
  restore(read_checkpoint(run / checkpoint).tensors, "agent/", agent->parameters());
  agent->parameters_changed();
  return agent;
}

void print_result(const EvaluationResult& result) {
  fmt::print("return {:.2f} ± {:.2f} over {} episodes\n", result.mean_return, result.std_return,
             result.episodes);
}

void move_to_device(const Config& config, ActorCritic& agent) {
  const auto device = parse_device(config.device);
  open_device(device);
  agent.to(device);
}

}  // namespace shoal::app
