#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/step_barrier.h"
#include "shoal/core/worker_group.h"
#include "shoal/envs/registry.h"
#include "shoal/runners/config.h"
#include "shoal/runners/failure_file.h"
#include "shoal/samplers/env_failure.h"
#include "src/app/commands.h"
#include "src/app/frame_sink.h"

namespace fs = std::filesystem;

namespace shoal::app {
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

  // status: of this process, if it is a worker.
  void run(WorkerStatus* status) {
    const auto enter = [&](WorkerStatus::Phase phase, std::int64_t step) {
      if (status != nullptr) status->enter(phase, failure_.env, step);
    };
    enter(WorkerStatus::kConstructing, failure_.begin);
    FailureReplay replay(make_env_, failure_);
    const auto video =
        flags_.video.empty() ? nullptr : make_video(flags_.video, replay.env().spec().fps);
    enter(WorkerStatus::kResetting, failure_.begin);
    replay.begin();
    show(replay, video.get());
    const auto steps = replay.steps_before();
    for (std::int64_t i = 0; i < steps; ++i) {
      enter(WorkerStatus::kStepping, failure_.step - steps + i);
      replay.step();
      show(replay, video.get());
    }
    if (status != nullptr) status->leave();
    if (video) video->finish();
    print_arrival(replay);
    arrived_ = true;
    if (flags_.breaks) wait_for_debugger();
    std::fflush(stdout);
    enter(failure_.in_step ? WorkerStatus::kStepping : WorkerStatus::kResetting, failure_.step);
    replay.fail();
    if (status != nullptr) status->leave();
  }
  bool arrived() const { return arrived_; }  // at the step that failed

 private:
  static void show(FailureReplay& replay, FrameSink* video) {
    if (video == nullptr) return;
    Image image;
    require(replay.env().render(image), "{} draws no pictures; rewind it without --video",
            replay.env().spec().id);
    video->show(image);
  }

  void print_arrival(const FailureReplay& replay) const {
    fmt::print("{} steps are taken", replay.steps_before());
    if (const auto same = replay.same_observation())
      fmt::print("; the observation is {}", *same
                                                ? "the one that the run had, to the last bit"
                                                : "NOT the one that the run had: the environment "
                                                  "depends on more than its seed and its actions");
    if (failure_.in_step)
      fmt::print("\nabout to take the step that failed, with action {}\n", action_text(failure_));
    else
      fmt::print("\nabout to call the reset or save that failed\n");
  }

  const RewindFlags& flags_;
  const EnvFactory& make_env_;
  const EnvFailure& failure_;
  bool arrived_ = false;
};

int not_again() {
  fmt::print("it did not fail this time\n");
  return kFailure;
}

// A debugger wants the process that it sees: nothing is forked.
int run_here(Rewinding& rewinding) {
  try {
    rewinding.run(nullptr);
  } catch (const std::exception& e) {
    if (!rewinding.arrived()) throw;
    fmt::print("it failed again: {}\n", e.what());
    return kSuccess;
  }
  return not_again();
}

// In a process of its own, whose death is told as that of a worker is.
int run_apart(Rewinding& rewinding, const EnvFailure& failure, const Config& config) {
  Arena::Plan plan;
  const auto memory = plan.add_bytes(StepBarrier::bytes(1));
  const Arena arena(plan);
  StepBarrier done(arena.data(memory), 1, /*spin=*/0);
  constexpr std::chrono::milliseconds kPause{100};
  const auto body = [&](int worker, WorkerStatus status) {
    rewinding.run(&status);
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
    if (e.step != failure.step) {
      fmt::print("another failure came, at step {}: {}\n", e.step, e.what());
      return kFailure;
    }
    fmt::print("it failed again: {}\n", e.what());
    return kSuccess;
  }
  return not_again();
}

int rewind_command(const RewindFlags& flags) {
  const bool is_file = fs::is_regular_file(flags.run);
  const auto run = is_file ? fs::absolute(flags.run).parent_path() : flags.run;
  const Config config = read_run_config(run);
  const auto file = is_file ? flags.run : latest_failure(run);
  const auto failure = read_failure(file);
  const auto make_env = make_env_factory(config.env_id, config.env);
  print_kept(file, failure, config.env_id);
  require(
      failure.repeatable(),
      "the beginning is lost, and there is nothing to rewind to: {} cannot be saved, and its last "
      "reset with a seed is too many steps ago",
      config.env_id);
  std::signal(SIGPIPE, SIG_IGN);  // of an ffmpeg that has given up
  at::set_num_threads(1);         // one environment is no work for more
  Rewinding rewinding(flags, make_env, failure);
  return flags.breaks ? run_here(rewinding) : run_apart(rewinding, failure, config);
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
                    "Wait for a debugger before the step that failed; in this process");
  command
      ->add_option("--video", flags->video,
                   "Film what came before it: .mp4 or .gif by ffmpeg; without ffmpeg, PNG pictures")
      ->type_name("FILE");
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return rewind_command(*flags); }; });
}

}  // namespace shoal::app
