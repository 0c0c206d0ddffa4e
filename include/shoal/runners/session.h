#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shoal/distributed/process_group.h"
#include "shoal/replays/replay.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/config.h"
#include "shoal/runners/console.h"
#include "shoal/runners/episode_window.h"
#include "shoal/runners/log.h"
#include "shoal/runners/progress_file.h"
#include "shoal/runners/run_folder.h"
#include "shoal/runners/signals.h"

namespace shoal {

class MetricMeans;

// The files of a run folder.
inline constexpr const char* kProgressFile = "progress.csv";  // one row per rollout or log_steps
inline constexpr const char* kSummaryFile = "summary.json";   // written at the end

struct SessionOptions {
  bool quiet = false;   // print nothing on the console
  bool resume = false;  // resume the run in the folder
  // The checkpoint in the folder to resume from. Later rows and checkpoints but the best are
  // removed.
  std::string checkpoint = kCheckpointFile;
  bool again = false;  // restart in the folder of a run that has no checkpoint
  // False: a signal before begin() makes it throw Interrupted; true: it ends the process.
  bool ends_at_once = true;
  // The first lines on the console, for the settings of the run; printed when it begins.
  std::function<std::string(const Config&)> heading = {};
  // With several ranks, each has its own session, and all call the same functions in the same
  // order. The session of rank 0 has the files and the console. Must outlive the session.
  ProcessGroup* ranks = &group_of_one();
};

// The metric with the mean return of an evaluation; best.ckpt is the agent with the highest one.
inline constexpr const char* kEvalReturn = "eval_return";

// The parts of a run besides its loop: folder, signals, progress, checkpoints. A runner is
//
//   Session session(config, folder);  // first of all: claims the folder; Ctrl-C ends it at once
//   ... make agent, sampler (from session.sampler_state()), algo ...
//   session.begin(*agent, *algo, sampler.get());  // there are files; Ctrl-C asks running() to end
//   while (session.running()) {
//     Batch batch = session.collect(*sampler);
//     Progress progress = session.advance(batch);
//     session.report(algo->update(batch.samples, progress), sampler->times());
//   }
//   session.finish();
//
// Used by one thread; a process has at most one session at a time. If begin() is never reached, the
// folder is removed, unless failure_handler() has received a failure.
//
// A resumed run equals the run without interruption: on the CPU, with the same number of threads,
// progress.csv is the same except for the columns of time (seconds, sps, share_*) and, with
// log_steps, an additional row where the first part has ended by its steps or stop_return. If
// environments cannot be saved, this holds for runs that stop at Config::checkpoint_steps.
class Session {
 public:
  // Throws Error if the folder is not empty, cannot be created or is not writable. For a run to
  // resume: if it is in use, has no usable checkpoint, or has taken all its steps; `config` must
  // then be read_run_config(folder), possibly changed. Also for settings that validate() refuses,
  // and weights (init_from) that do not fit.
  Session(const Config& config, const std::filesystem::path& folder,
          const SessionOptions& options = {});
  ~Session();

  // Replaces the sampler of the settings, which begin() writes, and the lines about it, which
  // begin() prints before the heading. To be called before the functions below.
  void use_sampler(const SamplerOptions& sampler, std::string lines = "") {
    config_.sampler = sampler;
    sampler_lines_ = std::move(lines);
  }
  // For SamplerOptions::on_failure: see keep_failures().
  FailureHandler failure_handler() const;
  // For make_sampler(): the sampler state in the checkpoint of a run to resume; empty for a new
  // run.
  NamedTensors sampler_state() const;

  // Writes config.toml and starts the clock. Restores agent, algo and replay from the checkpoint,
  // or the agent from that of Config::init_from. All must outlive the last call of report() and
  // finish(). sampler: if null, checkpoints do not contain environments, and a resumed run begins
  // new episodes. replay: for off-policy algorithms.
  void begin(Agent& agent, Algo& algo, Sampler* sampler = nullptr, Replay* replay = nullptr);
  // The sink receives all rows from now on.
  void add_sink(std::unique_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }

  // False once the steps are taken, stop_return is reached, or a signal has asked to stop.
  bool running() const;
  Progress progress() const { return {.steps = steps_, .schedule_steps = config_.schedule_steps}; }
  // Calls sampler.collect(). With several ranks, if it throws because of numbers that are not
  // finite, all ranks end: the others throw DataError from advance().
  Batch collect(Sampler& sampler);
  // Counts a rollout before learning from it; returns the progress before it. With several ranks,
  // counts the rollouts of all ranks, and exchanges their episodes and stop requests.
  Progress advance(const Batch& batch);
  // Steps of the last rollout, over all ranks.
  std::int64_t rollout_steps() const { return steps_ - rollout_steps_; }
  // Call it after learning, with the number of updates. Once Config::log_steps have passed, writes
  // a row of progress with the means of the metrics since the last row, and updates the console.
  // Writes a checkpoint when one is due; this ends the batch. Checkpoints at checkpoint_steps reset
  // environments that cannot be saved; other checkpoints do not. Throws std::runtime_error if a
  // checkpoint, and Error if another file cannot be written. Throws DataError, before anything is
  // written, if a parameter of the agent is NaN or infinite; the last checkpoint is then kept.
  void report(const Metrics& metrics, const SamplerTimes& times, std::int64_t updates = 1);
  // Whether the last rollout has reached the next multiple of Config::eval_steps.
  bool evaluation_is_due() const;
  // Writes the last checkpoint and summary.json. Throws as report() does. Call it after a signal,
  // too.
  void finish();
  // Call it between two updates if collect() has thrown Interrupted. The checkpoint of finish()
  // then contains everything learned so far but not the interrupted rollout, and a resumed run
  // begins new episodes. Several ranks cannot agree on a rollout to give up, so it rethrows `why`.
  void give_up_rollout(const Interrupted& why);

  int stop_signal() const;  // the signal that all ranks know of; 0: none
  bool solved() const;      // stop_return is reached
  // Why running() is false: "steps", "stop_return", or the name of the signal; "loop" if the loop
  // of the runner has ended earlier.
  std::string ended_by() const;
  std::int64_t steps() const { return steps_; }
  std::int64_t updates() const { return updates_; }  // as passed to report()
  double seconds() const;                            // of training, including those before a resume
  const EpisodeWindow& episodes() const { return episodes_; }
  const std::filesystem::path& folder() const { return path_; }

  // Whether `own` is true in all ranks. All ranks must call it together.
  bool all_ranks(bool own) const;

 private:
  struct Shares;
  bool leads() const { return ranks_.rank() == 0; }
  void open_files(const std::string& settings);
  NamedTensors own_sampler_state(bool reset_others);
  NamedTensors of_all_ranks(const NamedTensors& own);
  bool row_is_due() const;
  void write_row(const SamplerTimes& times);
  LogRow row_of(const Metrics& metrics, const Shares& shares, double sps) const;
  void restore();
  NamedTensors saved_replay() const;
  void save_replay(Checkpoint& checkpoint);
  bool pause_is_over() const;
  bool checkpoint_is_due() const;
  bool checkpoint_steps_are_over() const;
  void say_what_cannot_be_saved(const NamedTensors& checkpoint);
  void say_given_up(const Interrupted& why, const char* lost);
  void require_finite_parameters() const;
  void tell_ranks(const std::string& failure);
  void save_checkpoint();
  void save_if_best(double score);
  Named<std::int64_t> counters() const;
  void save_summary() const;

  Config config_;
  SignalGuard signals_;
  ProcessGroup& ranks_;
  std::filesystem::path path_;
  std::optional<RunFolder> folder_;  // rank 0 only
  Console console_;
  EpisodeWindow episodes_;
  std::optional<std::vector<std::string>> infos_;  // Batch::infos of the first rollout
  Agent* agent_ = nullptr;
  Algo* algo_ = nullptr;
  Sampler* sampler_ = nullptr;
  Replay* replay_ = nullptr;
  Checkpoint resumed_;  // until begin(); empty: a new run
  bool quiet_, resumes_, said_ = false;
  std::string checkpoint_;  // to resume from
  std::function<std::string(const Config&)> heading_;
  std::string sampler_lines_;
  CheckpointFiles checkpoints_;
  ProgressFile progress_;
  std::vector<std::unique_ptr<LogSink>> sinks_;  // added by add_sink()

  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, learning_since_;
  std::int64_t steps_ = 0, updates_ = 0, saved_steps_ = 0;
  std::int64_t rollout_steps_ = 0, row_steps_ = 0;  // before the last rollout; at the last row due
  std::int64_t timed_steps_ = 0;        // at the last row of this process, or at its start
  std::unique_ptr<MetricMeans> means_;  // since the last row
  double seconds_before_ = 0;           // of the run before it was resumed
  double row_seconds_ = 0, saved_seconds_ = 0;
  double best_return_ = -std::numeric_limits<double>::infinity();
  SamplerTimes row_times_;
  double learning_ = 0, logging_ = 0;  // seconds since the last row
  double saving_ = 0;                  // duration of the last checkpoint, in seconds
  int agreed_signal_ = 0;              // the signal that all ranks agreed on
  bool agreed_checkpoint_ = false;     // decided by the clock of rank 0
  std::int64_t reports_ = 0;
};

}  // namespace shoal
