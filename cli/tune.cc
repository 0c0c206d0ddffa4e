#include <fmt/format.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/run_process.h"
#include "cli/rungs.h"
#include "cli/sweep.h"
#include "shoal/core/error.h"
#include "shoal/runners/progress_file.h"
#include "shoal/runners/session.h"
#include "shoal/runners/signals.h"
#include "src/core/print.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

struct TuneFlags {
  fs::path file, out;
};

// Every trial has the schedules of the longest one, so that a trial which is promoted goes on as if
// it had never stopped.
Sweep read_trials(const TuneFlags& flags, const fs::path& out) {
  auto sweep = read_sweep(flags.file, out);
  require(sweep.halving.has_value(),
          "{} has no table [tune]; expected one with min_steps and max_steps", flags.file.string());
  check_tasks(sweep);
  for (auto& run : sweep.runs) {
    for (const auto& [key, value] : run.settings)
      require(key != "steps" && key != "schedule_steps",
              "{}: found a setting '{}', which is max_steps of [tune] when tuning; remove it",
              flags.file.string(), key);
    const auto steps = fmt::format("{}", sweep.halving->max_steps);
    run.config.schedule_steps = run.config.steps = sweep.halving->max_steps;
    run.settings.emplace_back("schedule_steps", steps);
  }
  return sweep;
}

// The mean return in the first row at or after `steps`, where a run of that many steps ends, or in
// the last row; -infinity if no episode had ended.
double return_at(const SweepRun& run, std::int64_t steps) {
  double found = -std::numeric_limits<double>::infinity();
  const auto table = read_progress(run.folder / kProgressFile);
  if (!table.contains("steps") || !table.contains("return_mean")) return found;
  const auto &at = table.at("steps"), &returns = table.at("return_mean");
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (std::isfinite(returns[i])) found = returns[i];
    if (at[i] >= static_cast<double>(steps)) break;
  }
  return found;
}

class Tuner {
 public:
  explicit Tuner(Sweep sweep)
      : sweep_(std::move(sweep)), slots_(make_slots(sweep_)), rungs_(*sweep_.halving) {
    for (std::size_t i = 0; i < sweep_.runs.size(); ++i) {
      rungs_.add_trial();
      take_in(i);
    }
  }

  int run() {
    print_output("{} trials of {} to {} steps, {} at a time\n", sweep_.runs.size(),
                 sweep_.halving->min_steps, sweep_.halving->max_steps, slots_.size());
    while (true) {
      if (signals_.caught() != 0 || rungs_.solved()) stop();
      bool busy = false;
      for (auto& slot : slots_) busy = supervise(slot) || busy;
      if (!busy) break;
      std::fflush(stdout);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return failed_;
  }

  void print_best() const {
    const auto best = rungs_.best();
    if (!best) {
      print_output("\nno trial has come to an end\n");
      return;
    }
    const auto& run = sweep_.runs[*best];
    const auto outcome = outcome_of(run).value();
    print_output("\n{} steps in all\nbest: {}, {}{}\n", steps(), run.folder.string(),
                 return_text(outcome), outcome.solved ? ", solved" : "");
    if (!run.base.empty()) print_output("  base = {}\n", run.base);
    print_output("  steps = {}\n", sweep_.halving->max_steps);
    for (const auto& [key, value] : run.settings)
      if (key != "schedule_steps") print_output("  {} = {}\n", key, value);
  }

  int stop_signal() const { return signals_.caught(); }

 private:
  std::int64_t steps() const {
    std::int64_t sum = 0;
    for (const auto& run : sweep_.runs)
      if (const auto outcome = outcome_of(run)) sum += outcome->steps;
    return sum;
  }

  // Records the rungs that a trial has reached.
  void take_in(std::size_t trial) {
    const auto& run = sweep_.runs[trial];
    const auto outcome = outcome_of(run);
    if (!outcome) return;
    for (int rung = rungs_.reached(trial) + 1; rung < rungs_.count(); ++rung) {
      const auto steps = rungs_.steps(rung);
      if (outcome->steps < steps && !outcome->solved) return;
      rungs_.record(trial, rung, return_at(run, steps), outcome->solved);
      if (outcome->solved) return;
    }
  }

  void stop() {
    if (!std::exchange(stopping_, true)) terminate(slots_);
  }

  // False if there is nothing left to do for the slot, unless others are busy.
  bool supervise(Slot& slot) {
    if (const auto status = ended(slot)) finish(slot.run, *status);
    if (slot.pid > 0) return true;
    if (stopping_) return false;
    const auto next = rungs_.next();
    if (!next) return false;
    slot.run = next->trial;
    auto run = sweep_.runs[next->trial];
    run.config.steps = rungs_.steps(next->rung);
    run.settings.emplace_back("steps", fmt::format("{}", run.config.steps));
    try {
      begin(run, slot);
    } catch (const Error& e) {
      fail(next->trial, e.what());
    }
    return true;
  }

  void fail(std::size_t trial, const std::string& why) {
    ++failed_;
    rungs_.give_up(trial);
    print_output("{}: failed: {}\n", name_of(sweep_.runs[trial]), why);
  }

  void finish(std::size_t trial, int status) {
    const auto& run = sweep_.runs[trial];
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSuccess) {
      take_in(trial);
      const auto outcome = outcome_of(run).value();
      print_output("{}: {}{}\n", name_of(run), return_text(outcome),
                   outcome.solved ? ", solved" : "");
    } else if (stopping_) {
      print_output("{}: stopped\n", name_of(run));
    } else {
      fail(trial, fmt::format("see {}", log_of(run).string()));
    }
  }

  Sweep sweep_;
  std::vector<Slot> slots_;
  Rungs rungs_;
  SignalGuard signals_;
  bool stopping_ = false;
  int failed_ = 0;
};

int tune_command(const TuneFlags& flags) {
  const auto out = flags.out.empty() ? fs::path("runs") / flags.file.stem() : flags.out;
  auto sweep = read_trials(flags, out);
  const auto lock = lock_sweep(out);
  for (const auto& run : sweep.runs) require_same(run, "schedule_steps");
  print_output("{}", notes_of(sweep));
  Tuner tuner(std::move(sweep));
  const int failed = tuner.run();
  tuner.print_best();
  if (tuner.stop_signal() != 0) {
    print_output("stopped; run the same command again to continue\n");
    return 128 + tuner.stop_signal();
  }
  return failed == 0 ? kSuccess : kFailure;
}

}  // namespace

void add_tune(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<TuneFlags>();
  auto* command = app.add_subcommand(
      "tune", "Search for settings by successive halving: the best trials go on");
  command
      ->add_option("FILE", flags->file,
                   "Sweep file with a table [tune] (see docs/watching_runs.md)")
      ->type_name("")
      ->required();
  command->add_option("--out", flags->out,
                      "Parent of the run folders; default: runs/<name of FILE>");
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return tune_command(*flags); }; });
}

}  // namespace shoal::cli
