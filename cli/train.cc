#include "shoal/runners/train.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/cores.h"
#include "cli/set_flag.h"
#include "cli/train_settings.h"
#include "runners/preset_names.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/distributed/job_place.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/console.h"
#include "shoal/runners/launch.h"
#include "shoal/runners/run_folder.h"
#include "shoal/runners/signals.h"
#include "shoal/runners/summary_file.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

// Whether the summary says that the run reached its stop_return.
bool is_solved(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / kSummaryFile, error) &&
         read_summary(folder / kSummaryFile).solved;
}

// Launchers and queues restart jobs, and not all of them announce it. A restarted job resumes the
// run that it finds, whose settings must be those of the job; without a checkpoint, the run begins
// again.
void go_on(Config& config, const std::filesystem::path& folder, SessionOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(folder / kConfigFile, error) && !error) return;
  auto begun = read_run_config(folder);
  begun.ranks = config.ranks;
  config = as_begun(std::move(config), begun);
  require(write_config(begun) == write_config(config),
          "the run in {} has other settings than this job, which would resume it; give another "
          "--out, or --resume {}",
          folder.string(), shell_word(folder.string()));
  require(!is_solved(folder),
          "the run in {} has ended: it is solved, with a mean return of at least {}; to train on, "
          "use --resume {} with another stop_return",
          folder.string(), config.stop_return, shell_word(folder.string()));
  options.resume = std::filesystem::exists(folder / kCheckpointFile, error) || error;
  options.again = !options.resume;
}

// One line about cores, ranks, workers and threads. allowed: the cores of all ranks of this
// process.
std::string placement(const Config& config, const JobPlace& job, const std::vector<int>& allowed) {
  const auto& s = config.sampler;
  const int count = worker_count(config, std::ssize(allowed));
  std::string workers = config.ranks > 1 ? "which step their parts of" : "this process steps";
  if (s.kind != SamplerKind::kSerial) {
    workers = fmt::format("{} worker{}", count, count == 1 ? "" : "s");
    if (s.pin) {
      const std::vector<int> cores(s.cores.begin(), s.cores.end());
      workers += fmt::format(" pinned to {}", cores_text(cores.empty() ? allowed : cores));
    }
    workers += count == 1 ? " steps" : " step";
  }
  const int threads = tensor_threads(config);
  auto ranks = config.ranks > 1 ? fmt::format("{} ranks, ", config.ranks) : "";
  if (job.count > 1)
    ranks = fmt::format("{} ranks in {} processes of {}, ", config.ranks, job.count, job.launcher);
  return fmt::format("on cores {}: {}{} {} environments, {} thread{} for tensor operations{}",
                     cores_text(allowed), ranks, workers, s.envs, threads, threads == 1 ? "" : "s",
                     config.ranks > 1 ? " in each rank" : "");
}

std::string run_name(const TrainFlags& flags, const Config& config) {
  if (flags.source.empty() || config.base.starts_with(kDefaultsFolder))
    return folder_name(fmt::format("{}-{}", config.env_id, config.algo));
  return config.base.empty() ? std::filesystem::path(flags.source).stem().string() : config.base;
}

// Why the run has ended.
std::string reason(const Config& config, const TrainingEnd& end) {
  if (end.signal != 0)
    return fmt::format("{} asked to stop after {} of {} steps", signal_name(end.signal), end.steps,
                       config.steps);
  if (end.solved)
    return fmt::format(
        "mean return {:.2f} (last 100 episodes) reached stop_return, {:.6g}, after "
        "{} steps",
        end.mean_return, config.stop_return, end.steps);
  return fmt::format("{} steps are taken, of {} that were asked for", end.steps, config.steps);
}

// A note for a run that ended without reaching stop_return; "" otherwise.
std::string shortfall(const Config& config, const TrainingEnd& end) {
  if (end.signal != 0 || end.solved || !std::isfinite(config.stop_return)) return "";
  const auto n = std::min<std::int64_t>(end.episodes, 100);
  return fmt::format("not solved: final return {} (last {} episodes), expected {:.6g} (last 100)\n",
                     n == 0 ? "-" : fmt::format("{:.2f}", end.mean_return), n, config.stop_return);
}

// Prints to standard error if standard output is closed, or may be.
void tell_of_end(const Config& config, const TrainingEnd& end, const std::string& folder) {
  const auto word = shell_word(folder);
  auto text =
      fmt::format("{}\n{}{}: {}\nevaluate it: shoal eval {}\n", reason(config, end),
                  shortfall(config, end), end.signal == 0 ? "done" : "stopped", folder, word);
  const bool complete = end.solved || end.steps >= config.steps;
  if (end.signal != 0 && !complete)
    text += fmt::format("resume it: shoal train --resume {}\n", word);
  if (end.signal == SIGPIPE) text = "standard output was closed, so the run has ended\n" + text;
  if (end.signal == SIGPIPE || end.signal == SIGHUP)
    print_error("{}", text);
  else
    print_to_console(text);
}

int train_command(const TrainFlags& flags, char** argv) {
  const auto job = job_place();
  auto configured = configure(flags, job);
  Config& config = configured.config;
  launch(argv, config.threads);
  const auto resumed = resumed_run(flags.resume);
  auto folder = flags.resume.empty() ? std::filesystem::path(flags.out) : resumed.folder;
  require(job.count == 1 || !folder.empty(),
          "{} processes of {} train one run: give a folder that all of them can see, with --out",
          job.count, job.launcher);
  if (folder.empty()) folder = default_run_folder(run_name(flags, config), config.seed);
  SessionOptions options{.quiet = flags.quiet || job.place > 0,
                         .resume = !flags.resume.empty(),
                         .checkpoint = resumed.checkpoint,
                         .heading = [&, cores = allowed_cores()](const Config& used) {
                           return configured.notes + placement(used, job, cores);
                         }};
  if (!job.launcher.empty() && !options.resume && !folder.empty()) go_on(config, folder, options);
  std::signal(SIGPIPE, SIG_IGN);  // the reader of standard output may be gone
  const auto end = train(config, folder, options, job);
  if (!options.quiet) tell_of_end(config, end, folder.string());
  return end.signal == 0 ? kSuccess : 128 + end.signal;
}

}  // namespace

bool may_change(const std::string& key) {
  static const std::set<std::string> kKeys = {"steps",
                                              "schedule_steps",
                                              "stop_return",
                                              "checkpoint_seconds",
                                              "checkpoint_steps",
                                              "keep_checkpoints",
                                              "log_steps",
                                              "table_seconds",
                                              "tensorboard",
                                              "eval_steps",
                                              "eval_episodes",
                                              "live_eval_seconds",
                                              "device",
                                              "atari.emulator",
                                              "threads",
                                              "stop_grace",
                                              "ranks",
                                              "rank_timeout",
                                              "rank_backend",
                                              "ppo.slices",
                                              "replay.slices",
                                              "replay.shared",
                                              "sampler.kind",
                                              "sampler.workers",
                                              "sampler.groups",
                                              "sampler.pin",
                                              "sampler.cores",
                                              "sampler.step_limit",
                                              "sampler.reset_limit"};
  return kKeys.contains(key);
}

void add_train(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<TrainFlags>();
  auto* command = app.add_subcommand("train", "Train an agent");
  command
      ->add_option("PRESET_OR_FILE", flags->source,
                   "Preset (see shoal list presets) or TOML file; neither: --env")
      ->type_name("");
  command
      ->add_option("--resume", flags->resume,
                   "Resume the run in this folder, or from this checkpoint of it")
      ->type_name("RUN");
  command
      ->add_option(
          "--init-from", flags->init_from,
          "Start from the weights of a run folder, checkpoint, .safetensors file or zoo:NAME")
      ->type_name("RUN");
  command->add_option(
      "--out", flags->out,
      "Run folder; default: runs/<preset, or environment and algorithm>-<seed>-<time>");
  for (std::size_t i = 0; i < kShorthands.size(); ++i)
    command->add_option(kShorthands[i].flag, flags->values[i], kShorthands[i].doc);
  command->add_option(
      "--cores", flags->cores,
      "Number of cores to use, or a list (0-3,6); default: all that this process may use");
  command->add_option("--pin", flags->pin, "Pin workers to cores: auto, none or a list (0-3,6)");
  add_set(*command, flags->settings);
  command->add_flag("--quiet", flags->quiet, "Print errors only");
  command->callback(
      [flags, &chosen] { chosen = [flags](char** argv) { return train_command(*flags, argv); }; });
}

}  // namespace shoal::cli
