#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/cores.h"
#include "cli/sweep.h"
#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/config.h"
#include "shoal/runners/run_folder.h"
#include "shoal/runners/session.h"
#include "shoal/runners/summary_file.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

struct LaunchFlags {
  fs::path file, out;
};

// A run that was killed after its last checkpoint has no summary.
std::optional<RunSummary> outcome_of(const SweepRun& run) {
  RunSummary outcome;
  if (fs::exists(run.folder / kSummaryFile)) {
    outcome = read_summary(run.folder / kSummaryFile);
  } else if (fs::exists(run.folder / kCheckpointFile)) {
    const auto checkpoint = read_checkpoint(run.folder / kCheckpointFile);
    outcome.steps = checkpoint.counters.at("steps");
    outcome.final_return = saved(checkpoint.tensors, "return").item<double>();
  } else {
    return {};
  }
  return outcome;
}

// A run that was stopped has a summary, too.
bool is_end(const RunSummary& outcome, const SweepRun& run) {
  return outcome.solved || outcome.steps >= run.config.steps;
}

// The run in the folder must have the settings of the file. Throws Error otherwise.
void require_same(const SweepRun& run) {
  if (!fs::exists(run.folder)) return;
  require(fs::exists(run.folder / kConfigFile),
          "{} exists, but is not a run folder; give another folder with --out",
          run.folder.string());
  const auto before = setting_docs(read_run_config(run.folder)), now = setting_docs(run.config);
  for (std::size_t i = 0; i < now.size(); ++i)
    require(before[i].value == now[i].value || may_change(now[i].key),
            "{} was trained with {} = {}, but the file says {}; give another folder with --out",
            run.folder.string(), now[i].key, before[i].value, now[i].value);
}

// Cores, and possibly a GPU, for one run at a time.
struct Slot {
  std::vector<int> cores;
  int gpu = -1;
  pid_t pid = 0;  // 0: free
  std::size_t run = 0;
};

std::vector<Slot> make_slots(const Sweep& sweep) {
  const auto allowed = allowed_cores();
  std::vector<Slot> slots;
  for (auto first = allowed.begin(); allowed.end() - first >= sweep.cores; first += sweep.cores) {
    const int number = static_cast<int>(slots.size());
    slots.push_back(
        {.cores = {first, first + sweep.cores}, .gpu = sweep.gpus > 0 ? number % sweep.gpus : -1});
  }
  return slots;
}

// Arguments of the `shoal train` that begins or resumes a run.
std::vector<std::string> arguments_of(const Sweep& sweep, const SweepRun& run, const Slot& slot) {
  std::vector<std::string> words = {"shoal", "train"};
  if (fs::exists(run.folder / kCheckpointFile)) {
    words.insert(words.end(),
                 {"--resume", run.folder.string(), "--steps", fmt::format("{}", run.config.steps)});
  } else {
    if (fs::exists(run.folder)) {  // killed before its first checkpoint
      const RunFolder lock(run.folder, RunFolder::Kind::kExisting);
      fs::remove_all(run.folder);
    }
    words.insert(words.end(), {sweep.base, "--out", run.folder.string(), "--seed",
                               fmt::format("{}", run.config.seed)});
    for (const auto& [key, value] : run.settings)
      words.insert(words.end(), {"--set", fmt::format("{}={}", key, value)});
  }
  words.emplace_back("--quiet");
  if (slot.gpu >= 0) words.insert(words.end(), {"--device", fmt::format("cuda:{}", slot.gpu)});
  return words;
}

fs::path log_of(const SweepRun& run) { return run.folder.string() + ".log"; }

// Executes `shoal train` in the new process. Returns only on failure.
void become(std::vector<char*>& argv, const Slot& slot, const fs::path& log, pid_t launcher) {
  ::setpgid(0, 0);  // Ctrl-C must reach it through the launcher only
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // the run then writes a checkpoint and ends
  if (::getppid() != launcher) return;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (out < 0 || ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(out, STDERR_FILENO) < 0) return;
  try {
    use_cores(slot.cores);
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return;
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv("/proc/self/exe", argv.data());
}

pid_t start(const std::vector<std::string>& words, const Slot& slot, const fs::path& log) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // Until execv, the new process has the launcher's handlers, which must not take a signal.
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t launcher = ::getpid(), pid = ::fork();
  if (pid == 0) {
    become(argv, slot, log, launcher);
    ::_exit(127);
  }
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  require(pid > 0, "cannot start a process: {}", std::strerror(error));
  return pid;
}

std::string text_of(const RunSummary& outcome) {
  return fmt::format("return {:.2f} after {} steps, {:.0f} steps/s", outcome.final_return,
                     outcome.steps, outcome.sps);
}

std::string name_of(const SweepRun& run) { return run.folder.filename().string(); }

class Launcher {
 public:
  explicit Launcher(Sweep sweep) : sweep_(std::move(sweep)), slots_(make_slots(sweep_)) {
    for (std::size_t i = 0; i < sweep_.runs.size(); ++i)
      if (const auto outcome = outcome_of(sweep_.runs[i]);
          !outcome || !is_end(*outcome, sweep_.runs[i]))
        waiting_.push_back(i);
  }

  // Returns how many runs have failed.
  int train_all() {
    const auto done = sweep_.runs.size() - waiting_.size();
    fmt::print("{} runs, {} of them done; {} at a time, on cores", sweep_.runs.size(), done,
               slots_.size());
    for (const auto& slot : slots_) fmt::print(" {}", cores_text(slot.cores));
    fmt::print("\n");
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
    fmt::print("\n{:<{}}  runs  final return          steps  steps/s\n", "variant", width);
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
    if (std::exchange(stopping_, true)) return;
    for (const auto& slot : slots_)
      if (slot.pid > 0) ::kill(slot.pid, SIGTERM);
  }

  void supervise(Slot& slot) {
    if (slot.pid > 0) {
      int status = 0;
      if (::waitpid(slot.pid, &status, WNOHANG) == 0) return;
      slot.pid = 0;
      finish(sweep_.runs[slot.run], status);
    }
    if (waiting_.empty()) return;
    slot.run = waiting_.front();
    waiting_.pop_front();
    const auto& run = sweep_.runs[slot.run];
    try {
      slot.pid = start(arguments_of(sweep_, run, slot), slot, log_of(run));
    } catch (const Error& e) {
      ++failed_;
      fmt::print("{}: failed: {}\n", name_of(run), e.what());
    }
  }

  void finish(const SweepRun& run, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSuccess) {
      fmt::print("{}: {}\n", name_of(run), text_of(outcome_of(run).value()));
    } else if (stopping_) {
      fmt::print("{}: stopped\n", name_of(run));
    } else {
      ++failed_;
      fmt::print("{}: failed, see {}\n", name_of(run), log_of(run).string());
    }
  }

  void print_row(const std::string& variant, std::size_t width) const {
    double sum = 0, squares = 0, steps = 0, sps = 0;
    int n = 0;
    for (const auto& run : sweep_.runs) {
      if (run.variant != variant) continue;
      const auto outcome = outcome_of(run);
      if (!outcome || !is_end(*outcome, run)) continue;
      sum += outcome->final_return;
      squares += outcome->final_return * outcome->final_return;
      steps += static_cast<double>(outcome->steps);
      sps += outcome->sps;
      ++n;
    }
    if (n == 0) {
      fmt::print("{:<{}}  {:>4}\n", variant, width, n);
      return;
    }
    const double mean = sum / n;
    fmt::print("{:<{}}  {:>4}  {:>8.2f} ± {:<8.2f}  {:>8.0f}  {:>7.0f}\n", variant, width, n, mean,
               std::sqrt(std::max(0.0, squares / n - mean * mean)), steps / n, sps / n);
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
  std::error_code error;
  fs::create_directories(out, error);
  require(!error, "cannot create the folder {}: {}", out.string(), error.message());
  const RunFolder lock(out, RunFolder::Kind::kExisting);  // one launcher at a time
  for (const auto& run : sweep.runs) require_same(run);
  Launcher launcher(std::move(sweep));
  const int failed = launcher.train_all();
  launcher.print_table();
  if (launcher.stop_signal() != 0) {
    fmt::print("stopped; run the same command again to continue\n");
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
