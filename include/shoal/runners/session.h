#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
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
inline constexpr const char* kProgressFile = "progress.csv";  // a row for every update
inline constexpr const char* kSummaryFile = "summary.json";   // written at the end

struct SessionOptions {
  bool quiet = false;        // nothing on the console
  bool resume = false;       // go on with the run in the folder from its newest checkpoint
  bool again = false;        // begin anew in the folder of a run that came to no checkpoint
  std::string heading = {};  // the first line on the console, once the run begins
  // With several, each has a session of its own, and all call the same functions in the same order:
  // rank 0's has the files and the console, the others have none. Must outlive the session.
  ProcessGroup* ranks = &group_of_one();
};

// The metric that says what an evaluation gave, a mean return: best.ckpt is the agent of the
// highest.
inline constexpr const char* kEvalReturn = "eval_return";

// What a run is besides its loop: folder, signals, progress, checkpoints. A runner is
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
// Used by one thread, one at a time in a process. If begin() is never reached, no trace of the
// folder is left, unless failure_handler() has been given a failure.
//
// A resumed run is the one that never stopped: on the CPU, with as many threads, progress.csv is
// the same but for the columns that tell of time (seconds, sps, share_*), and with log_steps for
// the row where the first part ended. If environments cannot be
// saved, that holds for runs that stop at Config::checkpoint_steps.
class Session {
 public:
  // Throws Error if the folder holds something already, or cannot be made and written to; of a run
  // to resume, if it is in use, has no checkpoint that can be used, or has taken all its steps. Its
  // config is read_run_config(folder); what was changed in it is taken as given.
  Session(const Config& config, const std::filesystem::path& folder,
          const SessionOptions& options = {});
  ~Session();

  // For SamplerOptions::on_failure: see keep_failures().
  FailureHandler failure_handler() const;
  // For make_sampler(): what the checkpoint says of a run to resume; of a new run, nothing.
  NamedTensors sampler_state() const;

  // Writes config.toml and starts the clock; gives agent, algo and replay what the checkpoint, or
  // that of Config::init_from, has of them. All must outlive the last call of report() and
  // finish(). sampler null: checkpoints know nothing of environments, and a resumed run begins new
  // episodes. replay: of an off-policy algorithm.
  void begin(Agent& agent, Algo& algo, Sampler* sampler = nullptr, Replay* replay = nullptr);
  // Rows go there, too, from now on.
  void add_sink(std::unique_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }

  // False once the steps are taken, the return aimed at is reached, or a signal asked to stop.
  bool running() const;
  Progress progress() const { return {.steps = steps_, .schedule_steps = config_.schedule_steps}; }
  // sampler.collect(). With several ranks, all of them end with what it throws of numbers that are
  // not finite: DataError in the others, from advance().
  Batch collect(Sampler& sampler);
  // Counts a rollout, before learning from it; the progress before it. With several ranks, the
  // rollouts of all of them: they learn the others' episodes and whether to stop here.
  Progress advance(const Batch& batch);
  // Of the last rollout, of all ranks together.
  std::int64_t rollout_steps() const { return steps_ - rollout_steps_; }
  // After learning, by that many updates: if Config::log_steps are over, a row of progress, with
  // the means of the metrics since the last one, and the console; now and then a checkpoint, which
  // ends the batch. Environments that cannot be saved are reset by those that come at
  // checkpoint_steps, and by no others. Throws Error if they cannot be written, and DataError,
  // before it writes anything, if a parameter of the agent is NaN or infinite; the last checkpoint
  // stays then.
  void report(const Metrics& metrics, const SamplerTimes& times, std::int64_t updates = 1);
  // Whether the rollout just learned from has reached the next multiple of Config::eval_steps.
  bool evaluation_is_due() const;
  // Writes the last checkpoint and summary.json; likewise. Call it after a signal, too.
  void finish();
  // Call it where collect() has thrown Interrupted, between two updates: what was learned goes into
  // the checkpoint of finish(), the rollout that was given up does not, and environments begin new
  // episodes in a resumed run. Several ranks cannot agree on one then: it throws the same again.
  void give_up_rollout(const Interrupted& why);

  int stop_signal() const;  // that all ranks know of; 0 if none
  bool solved() const;      // the return aimed at is reached
  std::int64_t steps() const { return steps_; }
  std::int64_t updates() const { return updates_; }  // as reported
  double seconds() const;                            // of training, since begin() and before
  const EpisodeWindow& episodes() const { return episodes_; }
  const std::filesystem::path& folder() const { return path_; }

  // Whether this is true in all ranks; all must ask together.
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
  SignalGuard signals_{SignalGuard::First::kEndsAtOnce};
  ProcessGroup& ranks_;
  std::filesystem::path path_;
  std::optional<RunFolder> folder_;  // rank 0's
  Console console_;
  EpisodeWindow episodes_;
  std::optional<std::vector<std::string>> infos_;  // Batch::infos of the first rollout
  Agent* agent_ = nullptr;
  Algo* algo_ = nullptr;
  Sampler* sampler_ = nullptr;
  Replay* replay_ = nullptr;
  Checkpoint resumed_;  // until begin(); empty: a new run
  bool quiet_, resumes_, said_ = false;
  std::string heading_;
  CheckpointFiles checkpoints_;
  ProgressFile progress_;
  std::vector<std::unique_ptr<LogSink>> sinks_;  // further ones

  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, learning_since_;
  std::int64_t steps_ = 0, updates_ = 0, saved_steps_ = 0;
  std::int64_t rollout_steps_ = 0, row_steps_ = 0;  // before the last rollout, at the last row
  std::unique_ptr<MetricMeans> means_;              // since the last row
  double seconds_before_ = 0;                       // of a resumed run
  double row_seconds_ = 0, saved_seconds_ = 0;
  double best_return_ = -std::numeric_limits<double>::infinity();
  SamplerTimes row_times_;
  double learning_ = 0, logging_ = 0;  // seconds since the last row
  double saving_ = 0;                  // seconds that the last checkpoint took
  int agreed_signal_ = 0;              // of several ranks
  bool agreed_checkpoint_ = false;     // rank 0's clock says so
  std::int64_t reports_ = 0;
};

}  // namespace shoal
