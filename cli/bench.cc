#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_line.h"
#include "cli/bench_sample.h"
#include "cli/commands.h"
#include "cli/set_flag.h"
#include "shoal/core/error.h"
#include "shoal/runners/launch.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

struct BenchFlags {
  std::string env = "CartPole-v1", sampler = "parallel-gpu", model, precision = "float32",
              device = "cpu";
  std::int64_t envs = 16, horizon = 128;
  std::optional<int> workers;
  int groups = 1, threads = 0;
  BenchOptions options;
  std::vector<std::string> settings;  // key=value
  bool asynchronous = false, json = false;
};

// Steps of a run that is long enough for any measurement.
constexpr std::int64_t kEndless = 1'000'000'000'000;

bool is_atari(const std::string& id) { return id.starts_with("ALE/"); }

// The settings of the peers' benchmarks: no sticky actions, no clipping.
Config configure(const BenchFlags& flags) {
  Config config;
  config.env_id = flags.env;
  config.env.atari.sticky = 0;
  config.env.atari.clip_reward = false;
  config.env.atari.episodic_life = false;
  config.sampler.horizon = flags.horizon;
  config.sampler.envs = flags.envs;
  config.steps = kEndless;
  config.sampler.workers = flags.workers.value_or(flags.sampler == "auto" ? 0 : 2);
  config.sampler.groups = flags.groups;
  config.threads = flags.threads;
  config.asynchronous = flags.asynchronous;
  set(config, "sampler.kind", flags.sampler);
  set(config, "agent.act_precision", flags.precision);
  set(config, "model.name",
      !flags.model.empty()  ? flags.model
      : is_atari(flags.env) ? "nature-cnn"
                            : "mlp");
  set(config, "device", flags.device);
  config.model.shared_trunk = true;
  for (const auto& [key, value] : key_values(flags.settings)) set(config, key, value);
  return config;
}

nlohmann::ordered_json config_json(const Config& config, const SamplerOptions& sampler) {
  nlohmann::ordered_json json;
  const auto& env = config.env_id;
  if (is_atari(env)) {
    json["game"] = env.substr(4, env.find("-v") - 4);
    json["mode"] = "network";
  }
  json["envs"] = sampler.envs;
  if (sampler.kind == SamplerKind::kSerial)
    json["workers"] = nullptr;
  else
    json["workers"] = sampler.workers;
  json["groups"] = sampler.groups;
  json["threads"] = config.threads;
  json["T"] = sampler.horizon;
  json["sampler"] = name_of(sampler.kind);
  if (config.asynchronous) json["asynchronous"] = true;
  json["precision"] = config.agent.act_precision == Precision::kBf16 ? "bf16" : "float32";
  return json;
}

void print_json(const Config& config, const BenchResult& result) {
  const bool atari = is_atari(config.env_id);
  auto line = json_of({.bench = atari ? "sample_atari" : "sample_cartpole",
                       .config = config_json(config, result.sampler),
                       .unit = atari ? "agent steps/s" : "env steps/s",
                       .runs = result.sampling,
                       .other_cpu = result.other_cpu});
  line["environments_alone"] = five_digits(result.environments);
  line["acting_alone"] = five_digits(result.acting);
  line["share_of_bound"] = std::round(result.share() * 1000) / 1000;
  line["arithmetic"] = arithmetic(config);
  print_output("{}\n", line.dump());
}

void print_text(const Config& config, const BenchResult& result) {
  const auto [least, most] = std::minmax_element(result.sampling.begin(), result.sampling.end());
  const auto& sampler = result.sampler;
  print_output("{}: {}, {} environments in {} group{}, {} workers, {} threads, {}\n", config.env_id,
               name_of(sampler.kind), sampler.envs, sampler.groups, sampler.groups == 1 ? "" : "s",
               sampler.kind == SamplerKind::kSerial ? 0 : sampler.workers, config.threads,
               arithmetic(config));
  print_output("sampling            {:>12.0f} agent steps/s, median of {} ({:.0f} to {:.0f})\n",
               result.median(), result.sampling.size(), *least, *most);
  print_output("environments alone  {:>12.0f}\nacting alone        {:>12.0f}\n",
               result.environments, result.acting);
  print_output("bound               {:>12.0f}  ({}); reached: {:.0f} %\n", result.bound(),
               result.overlap ? "the smaller rate: acting and stepping overlap"
                              : "acting and stepping take turns",
               100 * result.share());
  print_output("other processes used {:.2f} cores during the runs\n", result.other_cpu);
}

int bench_command(BenchFlags flags, char** argv) {
  require_runs(flags.options.runs, flags.options.seconds);
  auto& config = flags.options.config;
  config = configure(flags);
  config.threads = tensor_threads(config);
  launch(argv, config.threads);
  const auto result = bench_sample(flags.options);
  flags.json ? print_json(config, result) : print_text(config, result);
  return kSuccess;
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<BenchFlags>();
  auto* bench = app.add_subcommand("bench", "Measure the speed of this machine");
  bench->require_subcommand(1);
  auto* command = bench->add_subcommand(
      "sample", "Measure a sampler with its agent in agent steps per second, and its upper bound");
  command->add_option("--env", flags->env, "Name of the environment")->capture_default_str();
  command
      ->add_option("--sampler", flags->sampler,
                   "Sampler: auto, serial, parallel-cpu or parallel-gpu")
      ->capture_default_str();
  command->add_option("--envs", flags->envs, "Number of environments")->capture_default_str();
  command->add_option("--workers", flags->workers,
                      "Number of worker processes; default: 2, or chosen with --sampler auto");
  command
      ->add_option(
          "--groups", flags->groups,
          "Groups of environments; with 2, one is stepped while the agent acts for the other")
      ->capture_default_str();
  command->add_flag("--asynchronous", flags->asynchronous,
                    "Sample continuously into a ring of rollouts (asynchronous sampling)");
  command->add_option("--horizon", flags->horizon, "Steps of each environment per rollout (T)")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of tensor operations; 0: one per core")
      ->capture_default_str();
  command->add_option("--runs", flags->options.runs, "Number of runs")->capture_default_str();
  command->add_option("--seconds", flags->options.seconds, "Duration of each run")
      ->capture_default_str();
  command->add_option("--act-precision", flags->precision, "Precision of acting: float32 or bf16")
      ->capture_default_str();
  command->add_option(
      "--model", flags->model,
      "Network, or auto, as in a training; default: nature-cnn for Atari, else mlp");
  command->add_option("--device", flags->device, "Device of the agent: cpu, cuda or cuda:N")
      ->capture_default_str();
  add_set(*command, flags->settings);
  command->add_flag("--json", flags->json, "Print the result as one line of JSON");
  command->callback(
      [flags, &chosen] { chosen = [flags](char** argv) { return bench_command(*flags, argv); }; });
}

}  // namespace shoal::cli
