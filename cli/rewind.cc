#include <ATen/ATen.h>
#include <ATen/Parallel.h>
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
  fmt::print("{}: environment {} ({}) failed at step {}:\n  {}\n", file.filename().string(),
             failure.env, id, failure.step, failure.error);
  const auto beginning = failure.seed ? fmt::format("a reset with seed {}", *failure.seed)
                         : failure.state.empty()
                             ? std::string("no beginning")
                             : fmt::format("its state of {} bytes", failure.state.size());
  fmt::print("kept: {} at step {}, and {} actions since\n", beginning, failure.begin,
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
  fmt::print(
      "process {0} waits for a debugger: `gdb -p {0}`, then `continue`; or `kill -CONT {0}`\n",
      getpid());
  std::fflush(stdout);
  constexpr std::chrono::milliseconds kPause{50};
  while (continued == 0 && !is_traced()) std::this_thread::sleep_for(kPause);
}

// The whole replay, in the process that may die of it.
class Rewinding {
 public:
  Rewinding(const RewindFlags& flags, const EnvFactory& make_env, const EnvFailure& failure)
      : flags_(flags), make_env_(make_env), failure_(failure) {}

  // status: of this process, if it is a worker. arrived: becomes true before the call that failed.
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
    require(replay.env().render(image), "{} draws no pictures; rewind it without --video",
            replay.env().spec().id);
    video->show(image);
  }

  static std::string steps_text(const FailureReplay& replay) {
    auto text = fmt::format("{} steps are taken", replay.steps_before());
    if (const auto same = replay.same_observation())
      text += *same
                  ? "; the observation is the one that the run had, to the last bit"
                  : "; the observation is NOT the one that the run had: the environment depends on "
                    "more than its seed and its actions";
    return text + "\n";
  }

  void announce(const std::string& taken) const {
    if (failure_.phase == WorkerStatus::kConstructing)
      fmt::print("about to make the environment, which failed\n");
    else if (failure_.at_beginning())
      fmt::print("about to call the first reset, in which or soon after which it failed\n");
    else if (failure_.phase == WorkerStatus::kResetting)
      fmt::print("{}about to call the reset that failed\n", taken);
    else if (failure_.in_step)
      fmt::print("{}about to take the step that failed, with action {}\n", taken,
                 action_text(failure_));
    else
      fmt::print("{}about to call the save that failed\n", taken);
  }

  const RewindFlags& flags_;
  const EnvFactory& make_env_;
  const EnvFailure& failure_;
  WorkerStatus* status_ = nullptr;
};

int not_again() {
  fmt::print("it did not fail this time\n");
  return kFailure;
}

// arrived: at the call that failed.
int failed(bool arrived, const std::exception& e) {
  fmt::print("{}: {}\n", arrived ? "it failed again" : "another failure came before it", e.what());
  return arrived ? kSuccess : kFailure;
}

// A debugger wants the process that it sees: nothing is forked.
int run_here(Rewinding& rewinding) {
  std::atomic<bool> arrived{false};
  try {
    rewinding.run(nullptr, arrived);
  } catch (const std::exception& e) {
    return failed(arrived, e);
  }
  return not_again();
}

// In a process of its own, whose death is told as that of a worker is.
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
      "older than the kept actions",
      config.env_id);
  std::signal(SIGPIPE, SIG_IGN);  // of an ffmpeg that has given up
  at::set_num_threads(1);         // one environment is no work for more
  Rewinding rewinding(flags, make_env, failure);
  return flags.breaks ? run_here(rewinding) : run_apart(rewinding, config);
}

}  // namespace

void add_rewind(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<RewindFlags>();
  auto* command = app.add_subcommand(
      "rewind", "Repeat the failure of an environment, in one process, from what the run has kept");
  command
      ->add_option("RUN", flags->run,
                   "The run folder, for its latest failure, or one of its failure-*.rewind")
      ->type_name("")
      ->required();
  command->add_flag("--break", flags->breaks,
                    "Wait for a debugger before the call that failed; in this process");
  command
      ->add_option("--video", flags->video,
                   "Film what came before it: .mp4 or .gif by ffmpeg; without ffmpeg, PNG pictures")
      ->type_name("FILE");
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return rewind_command(*flags); }; });
}

}  // namespace shoal::cli
