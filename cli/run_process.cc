#include "cli/run_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <utility>

#include "cli/commands.h"
#include "cli/cores.h"
#include "cli/train_settings.h"
#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/run_folder.h"
#include "shoal/runners/session.h"
#include "src/core/print.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

std::vector<std::string> program;

// Whether there is more than a run leaves that is killed as it begins: files half written.
bool has_begun(const fs::path& folder) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().extension() != ".new") return true;
  return fs::exists(folder) && !fs::is_directory(folder);
}

// The settings in which the run's folder and the file differ.
std::vector<SettingChange> differences(const SweepRun& run) {
  const auto begun = read_run_config(run.folder);
  return changed_settings(begun, as_begun(run.config, begun));
}

// Arguments of the `shoal train` that begins or resumes a run.
std::vector<std::string> arguments_of(const SweepRun& run, const Slot& slot) {
  auto words = program.empty() ? std::vector<std::string>{"shoal"} : program;
  words.emplace_back("train");
  if (fs::exists(run.folder / kCheckpointFile)) {
    words.insert(words.end(), {"--resume", run.folder.string()});
    for (const auto& d : differences(run))
      words.insert(words.end(), {"--set", fmt::format("{}={}", d.key, d.now)});
  } else {
    if (fs::exists(run.folder)) {  // killed before its first checkpoint
      const RunFolder lock(run.folder, RunFolder::Kind::kExisting);
      fs::remove_all(run.folder);
    }
    if (!run.base.empty()) words.push_back(run.base);
    words.insert(words.end(),
                 {"--out", run.folder.string(), "--seed", fmt::format("{}", run.config.seed)});
    for (const auto& [key, value] : run.settings)
      words.insert(words.end(), {"--set", fmt::format("{}={}", key, value)});
  }
  words.emplace_back("--quiet");
  if (slot.gpu >= 0) words.insert(words.end(), {"--device", fmt::format("cuda:{}", slot.gpu)});
  return words;
}

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
    print_error("{}\n", e.what());
    return;
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(program.empty() ? "/proc/self/exe" : argv[0], argv.data());
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

}  // namespace

void set_program(std::vector<std::string> words) { program = std::move(words); }

std::string return_text(const RunSummary& outcome) {
  const auto mean =
      std::isnan(outcome.final_return) ? "-" : fmt::format("{:.2f}", outcome.final_return);
  return fmt::format("return {} after {} steps", mean, outcome.steps);
}

std::optional<RunSummary> outcome_of(const SweepRun& run) {
  RunSummary outcome;
  if (fs::exists(run.folder / kSummaryFile)) {
    outcome = read_summary(run.folder / kSummaryFile);
    outcome.solved = outcome.solved && outcome.final_return >= run.config.stop_return;
  } else if (fs::exists(run.folder / kCheckpointFile)) {
    const auto checkpoint = read_checkpoint(run.folder / kCheckpointFile);
    outcome.steps = checkpoint.counters.at("steps");
    outcome.final_return = saved(checkpoint.tensors, "return").item<double>();
  } else {
    return {};
  }
  return outcome;
}

void require_same(const SweepRun& run, const std::string& fixed) {
  if (!has_begun(run.folder)) return;
  require(fs::exists(run.folder / kConfigFile),
          "{} exists, but is not a run folder; give another folder with --out",
          run.folder.string());
  for (const auto& [key, before, now] : differences(run))
    require(may_change(key) && key != fixed,
            "{} was trained with {} = {}, but the file says {}; give another folder with --out",
            run.folder.string(), key, before, now);
}

RunFolder lock_sweep(const std::filesystem::path& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  require(!error, "cannot create the folder {}: {}", out.string(), error.message());
  return RunFolder(out, RunFolder::Kind::kExisting);
}

void require_resumable(const SweepRun& run) {
  if (!fs::exists(run.folder / kCheckpointFile)) return;
  try {
    validate(as_begun(run.config, read_run_config(run.folder)));
  } catch (const Error& e) {
    throw Error("{}: {}", run.folder.string(), e.what());
  }
}

std::string name_of(const SweepRun& run) { return run.folder.filename().string(); }

std::filesystem::path log_of(const SweepRun& run) { return run.folder.string() + ".log"; }

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

void begin(const SweepRun& run, Slot& slot) {
  slot.pid = start(arguments_of(run, slot), slot, log_of(run));
}

void terminate(const std::vector<Slot>& slots) {
  for (const auto& slot : slots)
    if (slot.pid > 0) ::kill(slot.pid, SIGTERM);
}

std::optional<int> ended(Slot& slot) {
  int status = 0;
  if (slot.pid == 0 || ::waitpid(slot.pid, &status, WNOHANG) == 0) return {};
  slot.pid = 0;
  return status;
}

}  // namespace shoal::cli
