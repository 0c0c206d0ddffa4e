#include <fmt/format.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/confidence.h"
#include "cli/cores.h"
#include "cli/run_process.h"
#include "cli/sweep.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/signals.h"
#include "src/core/median.h"
#include "src/core/print.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

struct LaunchFlags {
  fs::path file, out;
};

std::string text_of(const RunSummary& outcome) {
  return fmt::format("{}, {:.0f} steps/s", return_text(outcome), outcome.sps);
}

struct ReturnSpread {
  double mean = 0, median = 0;
  std::string interval = {};  // 95 % confidence; of two runs both returns, of one "-"
};

ReturnSpread spread_of(std::vector<double> returns) {
  std::ranges::sort(returns);
  const auto count = returns.size();
  ReturnSpread spread{.median = median_of_sorted(returns)};
  for (const double r : returns) spread.mean += r / static_cast<double>(count);
  if (count < 3) {
    spread.interval = count == 1 ? "-" : fmt::format("{:.2f} and {:.2f}", returns[0], returns[1]);
    return spread;
  }
  double squares = 0;
  for (const double r : returns) squares += (r - spread.mean) * (r - spread.mean);
  const double half = half_interval(squares, count);
  spread.interval = fmt::format("{:.2f} to {:.2f}", spread.mean - half, spread.mean + half);
  return spread;
}

class Launcher {
 public:
  explicit Launcher(Sweep sweep) : sweep_(std::move(sweep)), slots_(make_slots(sweep_)) {
    for (std::size_t i = 0; i < sweep_.runs.size(); ++i) {
      const auto& run = sweep_.runs[i];
      if (const auto outcome = outcome_of(run); outcome && is_end(*outcome, run)) continue;
      require_resumable(run);
      waiting_.push_back(i);
    }
  }

  // Returns how many runs have failed.
  int train_all() {
    const auto done = sweep_.runs.size() - waiting_.size();
    print_output("{} runs, {} of them done; {} at a time, on cores", sweep_.runs.size(), done,
                 slots_.size());
    for (const auto& slot : slots_) print_output(" {}", cores_text(slot.cores));
    print_output("\n{}", notes_of(sweep_));
    while (!(waiting_.empty() && is_idle())) {
      if (signals_.caught() != 0) stop();
      for (auto& slot : slots_) supervise(slot);
      std::fflush(stdout);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return failed_;
  }

  void print_table() const {
    std::size_t width = 7;
    for (const auto& run : sweep_.runs) width = std::max(width, run.variant.size());
    print_output(
        "\n{:<{}}  runs      mean    95 % interval, or both    median     steps  steps/s\n",
        "variant", width);
    std::vector<std::string> seen;
    for (const auto& run : sweep_.runs) {
      if (std::ranges::count(seen, run.variant) > 0) continue;
      seen.push_back(run.variant);
      print_row(run.variant, width);
    }
  }

  int stop_signal() const { return signals_.caught(); }

 private:
  bool is_idle() const {
    return std::ranges::all_of(slots_, [](const Slot& slot) { return slot.pid == 0; });
  }

  void stop() {
    waiting_.clear();
    if (!std::exchange(stopping_, true)) terminate(slots_);
  }

  void supervise(Slot& slot) {
    if (const auto status = ended(slot)) finish(sweep_.runs[slot.run], *status);
    if (slot.pid > 0 || waiting_.empty()) return;
    slot.run = waiting_.front();
    waiting_.pop_front();
    const auto& run = sweep_.runs[slot.run];
    try {
      begin(run, slot);
    } catch (const Error& e) {
      ++failed_;
      print_output("{}: failed: {}\n", name_of(run), e.what());
    }
  }

  void finish(const SweepRun& run, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSuccess) {
      print_output("{}: {}\n", name_of(run), text_of(outcome_of(run).value()));
    } else if (stopping_) {
      print_output("{}: stopped\n", name_of(run));
    } else {
      ++failed_;
      print_output("{}: failed, see {}\n", name_of(run), log_of(run).string());
    }
  }

  void print_row(const std::string& variant, std::size_t width) const {
    std::vector<double> returns;
    double steps = 0, sps = 0;
    for (const auto& run : sweep_.runs) {
      if (run.variant != variant) continue;
      const auto outcome = outcome_of(run);
      if (!outcome || !is_end(*outcome, run)) continue;
      if (std::isnan(outcome->final_return)) continue;  // no episode has ended
      returns.push_back(outcome->final_return);
      steps += static_cast<double>(outcome->steps);
      sps += outcome->sps;
    }
    const auto n = static_cast<double>(returns.size());
    print_output("{:<{}}  {:>4}", variant, width, returns.size());
    if (returns.empty()) {
      print_output("\n");
      return;
    }
    const auto spread = spread_of(returns);
    print_output("  {:>8.2f}  {:>24}  {:>8.2f}  {:>8.0f}  {:>7.0f}\n", spread.mean, spread.interval,
                 spread.median, steps / n, sps / n);
  }

  Sweep sweep_;
  std::vector<Slot> slots_;
  std::deque<std::size_t> waiting_;
  SignalGuard signals_;
  bool stopping_ = false;
  int failed_ = 0;
};

int launch_command(const LaunchFlags& flags) {
  const auto out = flags.out.empty() ? fs::path("runs") / flags.file.stem() : flags.out;
  auto sweep = read_sweep(flags.file, out);
  require(!sweep.halving, "{} has a table [tune]; use shoal tune", flags.file.string());
  check_tasks(sweep);
  const auto lock = lock_sweep(out);
  for (const auto& run : sweep.runs) require_same(run);
  Launcher launcher(std::move(sweep));
  const int failed = launcher.train_all();
  launcher.print_table();
  print_output("\nplot them: shoal plot {}/*/ --out {}\n", shell_word(out.string()),
               shell_word(out.string() + "/curves.svg"));
  if (launcher.stop_signal() != 0) {
    print_output("stopped; run the same command again to continue\n");
    return 128 + launcher.stop_signal();
  }
  return failed == 0 ? kSuccess : kFailure;
}

}  // namespace

void add_launch(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<LaunchFlags>();
  auto* command = app.add_subcommand(
      "launch", "Train variants with several seeds, in parallel on the available cores");
  command->add_option("FILE", flags->file, "Sweep file (see docs/watching_runs.md)")
      ->type_name("")
      ->required();
  command->add_option("--out", flags->out,
                      "Parent of the run folders; default: runs/<name of FILE>");
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return launch_command(*flags); }; });
}

}  // namespace shoal::cli
