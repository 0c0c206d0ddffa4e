#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/frame_sink.h"
#include "shoal/core/error.h"
#include "shoal/ipc/step_barrier.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/config.h"
#include "shoal/runners/failure_file.h"
#include "shoal/samplers/env_failure.h"
#include "src/core/print.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

struct RewindFlags {
  fs::path run, video;
  bool breaks = false;
};

std::string action_text(const EnvFailure& failure) {
  std::vector<std::string> parts;
  for (const auto& [name, all] : failure.actions) {
    const auto action = all[failure.steps() - 1].flatten().to(at::kDouble);
    std::vector<double> numbers(action.const_data_ptr<double>(),
                                action.const_data_ptr<double>() + action.numel());
    parts.push_back(
        fmt::format("{}{}[{:g}]", name, name.empty() ? "" : " ", fmt::join(numbers, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_kept(const fs::path& file, const EnvFailure& failure, const std::string& id) {
  print_output("{}: environment {} ({}) failed at step {}:\n  {}\n", file.filename().string(),
               failure.env, id, failure.step, failure.error);
  const auto beginning = failure.seed ? fmt::format("a reset with seed {}", *failure.seed)
                         : failure.state.empty()
                             ? std::string("no start state")
                             : fmt::format("a saved state of {} bytes", failure.state.size());
  print_output("recorded: {} at step {}, and {} actions since\n", beginning, failure.begin,
               failure.steps());
}

bool is_traced() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("TracerPid:")) return line.find_first_of("123456789") != std::string::npos;
  return false;
}

volatile std::sig_atomic_t continued = 0;

void wait_for_debugger() {
  std::signal(SIGCONT, [](int) { continued = 1; });
  print_output(
      "process {0} waits for a debugger: `gdb -p {0}`, then `continue`; or `kill -CONT {0}`\n",
      getpid());
  std::fflush(stdout);
  constexpr std::chrono::milliseconds kPause{50};
  while (continued == 0 && !is_traced()) std::this_thread::sleep_for(kPause);
}

// The whole replay, in the process that may crash.
class Rewinding {
 public:
  Rewinding(const RewindFlags& flags, const EnvFactory& make_env, const EnvFailure& failure)
      : flags_(flags), make_env_(make_env), failure_(failure) {}

  // status: of this process, if it is a worker. arrived: set to true before the call that failed.
  void run(WorkerStatus* status, std::atomic<bool>& arrived) {
    status_ = status;
    const auto arrive = [&](const std::string& taken) {
      enter(WorkerStatus::kWaiting, -1);
      announce(taken);
      arrived = true;
      if (flags_.breaks) wait_for_debugger();
      std::fflush(stdout);
      enter(failure_.phase, failure_.step);
    };
    const bool at_once = failure_.phase == WorkerStatus::kConstructing;
    enter(WorkerStatus::kConstructing, failure_.begin);
    if (at_once) arrive("");
    FailureReplay replay(make_env_, failure_);
    const auto video =
        flags_.video.empty() ? nullptr : make_video(flags_.video, replay.env().spec().fps);
    enter(WorkerStatus::kResetting, failure_.begin);
    if (failure_.at_beginning() && !at_once) arrive("");
    replay.begin();
    take_steps(replay, video.get());
    if (video) video->finish();
    const auto taken = steps_text(replay);
    replay.fail([&] { arrive(taken); });
    enter(WorkerStatus::kWaiting, -1);
  }

 private:
  void enter(WorkerStatus::Phase phase, std::int64_t step) const {
    if (status_ != nullptr) status_->enter(phase, step < 0 ? -1 : failure_.env, step);
  }

  void take_steps(FailureReplay& replay, FrameSink* video) const {
    show(replay, video);
    const auto steps = replay.steps_before();
    for (std::int64_t i = 0; i < steps; ++i) {
      enter(WorkerStatus::kStepping, failure_.step - steps + i);
      replay.step();
      show(replay, video);
    }
    enter(WorkerStatus::kStepping, failure_.step);
  }

  static void show(FailureReplay& replay, FrameSink* video) {
    if (video == nullptr) return;
    Image image;
    require(replay.env().render(image), "{} cannot render; rewind it without --video",
            replay.env().spec().id);
    video->show(image);
  }

  static std::string steps_text(const FailureReplay& replay) {
    auto text = fmt::format("{} steps replayed", replay.steps_before());
    if (const auto same = replay.same_observation())
      text += *same ? "; the observation equals that of the run bit for bit"
                    : "; the observation DIFFERS from that of the run: the environment depends on "
                      "more than its seed and its actions";
    return text + "\n";
  }

  void announce(const std::string& taken) const {
    if (failure_.phase == WorkerStatus::kConstructing)
      print_output("next: the constructor of the environment, which failed\n");
    else if (failure_.at_beginning())
      print_output("next: the first reset; the failure came in it or soon after it\n");
    else if (failure_.phase == WorkerStatus::kResetting)
      print_output("{}next: the reset that failed\n", taken);
    else if (failure_.in_step)
      print_output("{}next: the step that failed, with action {}\n", taken, action_text(failure_));
    else
      print_output("{}next: the save that failed\n", taken);
  }

  const RewindFlags& flags_;
  const EnvFactory& make_env_;
  const EnvFailure& failure_;
  WorkerStatus* status_ = nullptr;
};

int not_again() {
  print_output("the environment did not fail this time\n");
  return kFailure;
}

// arrived: whether the call that failed was reached.
int failed(bool arrived, const std::exception& e) {
  print_output("{}: {}\n", arrived ? "it failed again" : "it failed earlier, with another error",
               e.what());
  return arrived ? kSuccess : kFailure;
}

// Nothing is forked, because the debugger attaches to this process.
int run_here(Rewinding& rewinding) {
  std::atomic<bool> arrived{false};
  try {
    rewinding.run(nullptr, arrived);
  } catch (const std::exception& e) {
    return failed(arrived, e);
  }
  return not_again();
}

// Runs in a worker process, so that its death is reported as in training.
int run_apart(Rewinding& rewinding, const Config& config) {
  Arena::Plan plan;
  const auto memory = plan.add_bytes(StepBarrier::bytes(1));
  const auto flag = plan.add_bytes(sizeof(std::atomic<bool>));
  const Arena arena(plan);
  StepBarrier done(arena.data(memory), 1, /*spin=*/0);
  auto& arrived = *new (arena.data(flag)) std::atomic<bool>(false);
  constexpr std::chrono::milliseconds kPause{100};
  const auto body = [&](int worker, WorkerStatus status) {
    rewinding.run(&status, arrived);
    std::fflush(stdout);
    done.arrive(worker);
    while (!done.wait_release(worker, kPause)) {
    }
  };
  WorkerGroup group(
      1, body,
      {.step_limit = config.sampler.step_limit, .reset_limit = config.sampler.reset_limit});
  try {
    while (!done.wait(0, kPause)) group.check(0);
  } catch (const WorkerError& e) {
    return failed(arrived, e);
  }
  return not_again();
}

int rewind_command(const RewindFlags& flags) {
  // A bad name would end the process that replays, as if the environment had failed.
  if (!flags.video.empty()) make_video(flags.video, /*fps=*/1);
  const bool is_file = fs::is_regular_file(flags.run);
  const auto run = is_file ? fs::absolute(flags.run).parent_path() : flags.run;
  const Config config = read_run_config(run);
  const auto file = is_file ? flags.run : latest_failure(run);
  const auto failure = read_failure(file);
  const auto make_env = make_env_factory(config);
  print_kept(file, failure, config.env_id);
  require(
      failure.repeatable(),
      "the failure cannot be repeated: {} cannot save its state, and its last reset with a seed is "
      "older than the recorded actions",
      config.env_id);
  std::signal(SIGPIPE, SIG_IGN);  // ffmpeg may exit before the last frame
  at::set_num_threads(1);         // one environment does not need more threads
  Rewinding rewinding(flags, make_env, failure);
  return flags.breaks ? run_here(rewinding) : run_apart(rewinding, config);
}

}  // namespace

void add_rewind(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<RewindFlags>();
  auto* command = app.add_subcommand(
      "rewind",
      "Repeat a failure of an environment in one process, from the recording in the run folder");
  command
      ->add_option("RUN", flags->run,
                   "Run folder (its latest failure), or one of its failure-*.rewind files")
      ->type_name("")
      ->required();
  command->add_flag("--break", flags->breaks,
                    "Wait for a debugger before the call that failed, without forking");
  command
      ->add_option(
          "--video", flags->video,
          "Video of the steps before the failure: .gif, or .mp4, .mkv, .webm or .mov, which "
          "need ffmpeg")
      ->type_name("FILE");
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return rewind_command(*flags); }; });
}

}  // namespace shoal::cli
