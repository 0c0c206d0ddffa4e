#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/trained_agent.h"
#include "shoal/core/error.h"
#include "shoal/runners/config.h"
#include "shoal/runners/device.h"
#include "shoal/runners/evaluation.h"
#include "shoal/runners/launch.h"
#include "shoal/runners/session.h"

namespace shoal::cli {
namespace {

struct EvalFlags {
  std::filesystem::path run;
  EvaluationOptions options;
  std::string device, checkpoint = kCheckpointFile;
  std::int64_t seed = 1;
  bool json = false, sample = false;
};

void print_json(const EvaluationResult& result) {
  const nlohmann::ordered_json line = {{"mean_return", result.mean_return},
                                       {"std_return", result.std_return},
                                       {"episodes", result.episodes}};
  fmt::print("{}\n", line.dump());
}

int eval_command(EvalFlags flags, char** argv) {
  require(flags.seed >= 0, "--seed: found {}, expected 0 or more", flags.seed);
  flags.options.seed = static_cast<std::uint64_t>(flags.seed);
  const Config config = trained_config(flags.run, flags.device);
  flags.options.kind = config.sampler.kind;
  flags.options.step_limit = config.sampler.step_limit;
  flags.options.reset_limit = config.sampler.reset_limit;
  flags.options.pin = config.sampler.pin;
  flags.options.greedy = !flags.sample;

  launch(argv, config.threads);
  const SignalGuard signals;
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto agent = load_agent(config, flags.run, flags.checkpoint);
  Evaluator evaluator(make_env_factory(config), *agent, flags.options);
  move_to_device(*agent, config.device);
  at::set_num_threads(tensor_threads(config));

  const auto result = evaluator.run([&] { return signals.caught() != 0; });
  if (signals.caught() != 0) return 128 + signals.caught();
  if (flags.json)
    print_json(result);
  else
    print_result(result);
  return kSuccess;
}

}  // namespace

void add_eval(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<EvalFlags>();
  auto* command = app.add_subcommand(
      "eval", "Play complete episodes with a trained agent, on seeds of their own");
  command->add_option("RUN", flags->run, "The run folder")->type_name("")->required();
  command->add_option("--episodes", flags->options.episodes, "How many")->capture_default_str();
  command->add_option("--seed", flags->seed, "Seed of the evaluation's own stream")
      ->capture_default_str();
  command->add_option("--envs", flags->options.envs, "Environments that share the episodes")
      ->capture_default_str();
  command->add_option("--workers", flags->options.workers, "Processes that step them")
      ->capture_default_str();
  command->add_option("--checkpoint", flags->checkpoint, "Which of the run's checkpoints")
      ->capture_default_str();
  command->add_option("--device", flags->device, "cpu, cuda or cuda:N; default: as trained");
  command->add_flag("--json", flags->json, "One line of JSON");
  command->add_flag("--sample", flags->sample,
                    "Sample actions as in training instead of taking the most likely ones");
  command->callback(
      [flags, &chosen] { chosen = [flags](char** argv) { return eval_command(*flags, argv); }; });
}

}  // namespace shoal::cli
