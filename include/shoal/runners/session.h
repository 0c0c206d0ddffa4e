#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/config.h"
#include "shoal/runners/console.h"
#include "shoal/runners/episode_window.h"
#include "shoal/runners/log.h"
#include "shoal/runners/progress_file.h"
#include "shoal/runners/run_folder.h"
#include "shoal/runners/signals.h"

namespace shoal {

// The files of a run folder.
inline constexpr const char* kProgressFile = "progress.csv";  // a row for every update
inline constexpr const char* kSummaryFile = "summary.json";   // written at the end

struct SessionOptions {
  bool quiet = false;        // nothing on the console
  bool resume = false;       // go on with the run in the folder from its newest checkpoint
  std::string heading = {};  // the first line on the console, once the run begins
};

// What a run is besides its loop: folder, signals, progress, checkpoints. A runner is
//
//   Session session(config, folder);  // first of all: claims the folder, catches Ctrl-C
//   ... make agent, sampler (from session.sampler_state()), algo ...
//   session.begin(*agent, *algo, sampler.get());  // from here on there are files
//   while (session.running()) {
//     Batch batch = sampler->collect();
//     Progress progress = session.advance(batch);
//     session.report(algo->update(batch.samples, progress), sampler->times());
//   }
//   session.finish();
//
// Used by one thread, one at a time in a process. If begin() is never reached, no trace of the
// folder is left.
//
// A resumed run is the one that never stopped: on the CPU, with as many threads, progress.csv is
// the same but for the columns that tell of time (seconds, sps, share_*). If environments cannot be
// saved, that holds for runs that stop at Config::checkpoint_steps.
class Session {
 public:
  // Throws Error if the folder holds something already, or cannot be made and written to; of a run
  // to resume, if it is in use, has no checkpoint that can be used, or has taken all its steps. Its
  // config is read_run_config(folder); what was changed in it is taken as given.
  Session(const Config& config, const std::filesystem::path& folder,
          const SessionOptions& options = {});
  ~Session();

  // For make_sampler(): what the checkpoint says of a run to resume; of a new run, nothing.
  NamedTensors sampler_state() const;

  // Writes config.toml and starts the clock; gives agent and algo what the checkpoint, or that of
  // Config::init_from, has of them. All three must outlive the last call of report() and finish().
  // sampler null: checkpoints know nothing of environments, and a resumed run begins new episodes.
  void begin(Agent& agent, OnPolicyAlgo& algo, Sampler* sampler = nullptr);
  // Rows go there, too, from now on.
  void add_sink(std::unique_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }

  // False once the steps are taken, the return aimed at is reached, or a signal asked to stop.
  bool running() const;
  // Counts a window, before learning from it.
  Progress advance(const Batch& batch);
  // After learning: a row of progress, the console, and now and then a checkpoint, which ends the
  // batch. Environments that cannot be saved are reset by those that come at checkpoint_steps, and
  // by no others. Throws Error if they cannot be written; the last checkpoint stays then.
  void report(const Metrics& metrics, const SamplerTimes& times);
  // Whether the window just learned from has reached the next multiple of Config::eval_steps.
  bool evaluation_is_due() const;
  // Writes the last checkpoint and summary.json; likewise. Call it after a signal, too.
  void finish();

  int stop_signal() const { return signals_.caught(); }  // 0 if none
  bool solved() const;                                   // the return aimed at is reached
  std::int64_t steps() const { return steps_; }
  double seconds() const;  // of training, since begin() and before
  const EpisodeWindow& episodes() const { return episodes_; }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  struct Shares;
  LogRow row_of(const Metrics& metrics, const Shares& shares, double sps) const;
  void restore();
  bool checkpoint_is_due() const;
  bool checkpoint_steps_are_over() const;
  void say_what_cannot_be_saved(const NamedTensors& checkpoint);
  void save_checkpoint();
  void save_summary() const;

  Config config_;
  SignalGuard signals_;
  RunFolder folder_;
  Console console_;
  EpisodeWindow episodes_;
  std::optional<std::vector<std::string>> infos_;  // Batch::infos of the first window
  Agent* agent_ = nullptr;
  OnPolicyAlgo* algo_ = nullptr;
  Sampler* sampler_ = nullptr;
  Checkpoint resumed_;  // until begin(); empty: a new run
  bool quiet_, resumes_, said_ = false;
  std::string heading_;
  CheckpointFiles checkpoints_;
  ProgressFile progress_;
  std::vector<std::unique_ptr<LogSink>> sinks_;  // further ones

  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, learning_since_;
  std::int64_t steps_ = 0, updates_ = 0, row_steps_ = 0, saved_steps_ = 0;
  double seconds_before_ = 0;  // of a resumed run
  double row_seconds_ = 0, saved_seconds_ = 0;
  double best_return_ = -std::numeric_limits<double>::infinity();
  SamplerTimes row_times_;
  double logging_ = 0;  // seconds since the last row was written
};

}  // namespace shoal
