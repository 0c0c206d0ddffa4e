#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "shoal/runners/config.h"
#include "shoal/runners/console.h"
#include "shoal/runners/episode_window.h"
#include "shoal/runners/run_folder.h"
#include "shoal/runners/signals.h"

namespace shoal {

// The files of a run folder.
inline constexpr const char* kConfigFile = "config.toml";     // complete and re-runnable
inline constexpr const char* kProgressFile = "progress.csv";  // a row for every update
inline constexpr const char* kCheckpointFile = "model.ckpt";  // parameters, optimizer, counters
inline constexpr const char* kSummaryFile = "summary.json";   // written at the end

// What a run is besides its loop: folder, signals, progress, checkpoints. A runner is
//
//   Session session(config, folder);  // first of all: claims the folder, catches Ctrl-C
//   ... make agent, sampler, algo ...
//   session.begin(*agent, *algo);     // from here on there are files
//   while (session.running()) {
//     Batch batch = sampler->collect();
//     Progress progress = session.advance(batch);
//     session.report(algo->update(batch.samples, progress), sampler->times());
//   }
//   session.finish();
//
// Used by one thread, one at a time in a process. If begin() is never reached, no trace of the
// folder is left.
class Session {
 public:
  // Throws Error if the folder holds something already, or cannot be made and written to.
  Session(const Config& config, const std::filesystem::path& folder, bool quiet = false);
  ~Session();

  // Writes config.toml and starts the clock. Agent and algo must outlive the last call of report()
  // and finish().
  void begin(Agent& agent, OnPolicyAlgo& algo);

  // False once the steps are taken, the return aimed at is reached, or a signal asked to stop.
  bool running() const;
  // Counts a window, before learning from it.
  Progress advance(const Batch& batch);
  // After learning: a row of progress, the console, and now and then a checkpoint. Throws Error if
  // they cannot be written.
  void report(const Metrics& metrics, const SamplerTimes& times);
  // Writes the last checkpoint and summary.json; likewise. Call it after a signal, too.
  void finish();

  int stop_signal() const { return signals_.caught(); }  // 0 if none
  bool solved() const;                                   // the return aimed at is reached
  std::int64_t steps() const { return steps_; }
  double seconds() const;  // since begin()
  const EpisodeWindow& episodes() const { return episodes_; }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  struct Shares;
  void write_row(const Metrics& metrics, const Shares& shares, double sps);
  void save_checkpoint();
  void save_summary() const;
  void require_progress() const;

  Config config_;
  SignalGuard signals_;
  RunFolder folder_;
  Console console_;
  EpisodeWindow episodes_;
  std::vector<std::string> infos_;  // Batch::infos
  Agent* agent_ = nullptr;
  OnPolicyAlgo* algo_ = nullptr;
  std::ofstream progress_;

  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, learning_since_;
  std::int64_t steps_ = 0, updates_ = 0, row_steps_ = 0;
  double row_seconds_ = 0, checkpoint_at_ = 0;
  SamplerTimes row_times_;
};

}  // namespace shoal
