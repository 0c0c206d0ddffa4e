#include <ATen/Parallel.h>

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
#include "src/core/print.h"

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
  nlohmann::ordered_json line = {{"mean_return", result.mean_return},
                                 {"std_return", result.std_return},
                                 {"episodes", result.episodes}};
  for (const auto& [name, values] : result.infos) line["infos"][name] = mean_of(values);
  print_output("{}\n", line.dump());
}

int eval_command(EvalFlags flags, char** argv) {
  require(flags.seed >= 0, "--seed: found {}, expected 0 or more", flags.seed);
  flags.options.seed = static_cast<std::uint64_t>(flags.seed);
  const Config config = trained_config(flags.run, flags.device);
  // A loop of the user's own may leave `auto` in the settings of its run.
  if (config.sampler.kind != SamplerKind::kAuto) flags.options.kind = config.sampler.kind;
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
      "eval", "Evaluate a trained agent on complete episodes, with seeds not used in training");
  add_run(*command, flags->run, flags->checkpoint);
  command->add_option("--episodes", flags->options.episodes, "Number of episodes")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Seed of the evaluation")->capture_default_str();
  command
      ->add_option("--envs", flags->options.envs,
                   "Number of environments that play the episodes in parallel")
      ->capture_default_str();
  command
      ->add_option("--workers", flags->options.workers,
                   "Number of worker processes; ignored by runs with the sampler serial")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print the result as one line of JSON");
  add_acting(*command, flags->device, flags->sample);
  command->callback(
      [flags, &chosen] { chosen = [flags](char** argv) { return eval_command(*flags, argv); }; });
}

}  // namespace shoal::cli
