#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/frame_sink.h"
#include "cli/trained_agent.h"
#include "shoal/core/error.h"
#include "shoal/envs/wrapper.h"
#include "shoal/envs/wrappers.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/device.h"
#include "shoal/runners/evaluation.h"
#include "shoal/runners/launch.h"
#include "shoal/runners/signals.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

struct PlayFlags {
  std::filesystem::path run, video;
  std::string device, checkpoint = kCheckpointFile;
  std::int64_t seed = 1;
  int episodes = 1;
  std::int64_t max_steps = 0;
  bool sample = false, live = false;
  double fps = 0;
};

// State that the played environment shares with the command.
struct Stage {
  std::vector<std::unique_ptr<FrameSink>> sinks = {};
  std::int64_t episodes_left = 1;  // to be shown
  double pause = 0;                // seconds for which a screen shows one frame
};

// Shows a frame of every state.
class Shown : public Wrapper {
 public:
  Shown(std::unique_ptr<Env> env, Stage& stage) : Wrapper(std::move(env)), stage_(stage) {}

  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    Wrapper::reset(seed, out);
    show();
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const auto result = Wrapper::step(action, out);
    show();
    if (result.episode_over()) --stage_.episodes_left;
    return result;
  }

 private:
  void show() {
    if (stage_.sinks.empty() || stage_.episodes_left <= 0) return;
    require(render(image_), "{} cannot render; play it without --video and --live", spec_.id);
    for (const auto& sink : stage_.sinks) sink->show(image_);
    if (stage_.pause == 0) return;
    next_ = std::max(next_ + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(stage_.pause)),
                     Clock::now());
    std::this_thread::sleep_until(next_);
  }

  using Clock = std::chrono::steady_clock;
  Stage& stage_;
  Image image_;
  Clock::time_point next_;
};

Stage make_stage(const PlayFlags& flags, double fps) {
  Stage stage{.episodes_left = flags.episodes};
  if (!flags.video.empty()) stage.sinks.push_back(make_video(flags.video, fps));
  if (flags.live) {
    auto window = make_window();
    stage.sinks.push_back(window ? std::move(window) : make_terminal_view());
    stage.pause = 1 / fps;
  }
  return stage;
}

int play_command(const PlayFlags& flags, char** argv) {
  require(flags.seed >= 0, "--seed: found {}, expected 0 or more", flags.seed);
  require(flags.episodes > 0, "--episodes: found {}, expected 1 or more", flags.episodes);
  require(flags.max_steps >= 0, "--max-steps: found {}, expected 0 (no limit) or more",
          flags.max_steps);
  require(flags.fps >= 0, "--fps: found {}, expected 0 (the environment's own) or more", flags.fps);
  const Config config = trained_config(flags.run, flags.device);
  launch(argv, 1);
  const SignalGuard signals;
  std::signal(SIGPIPE, SIG_IGN);  // ffmpeg may exit before the last frame
  at::set_num_threads(1);         // one environment does not need more threads
  const auto agent = load_agent(config, flags.run, flags.checkpoint);

  auto make_env = make_env_factory(config);
  if (flags.max_steps > 0) make_env = with_time_limit(std::move(make_env), flags.max_steps);
  auto stage = make_stage(flags, flags.fps > 0 ? flags.fps : make_env({})->spec().fps);
  const auto make_shown = [&](const EnvContext& context) {
    return std::make_unique<Shown>(make_env(context), stage);
  };
  // Rollouts of one step: no step is played that is not shown.
  Evaluator evaluator(make_shown, *agent,
                      {.episodes = flags.episodes,
                       .envs = 1,
                       .seed = static_cast<std::uint64_t>(flags.seed),
                       .greedy = !flags.sample,
                       .kind = SamplerKind::kSerial,
                       .horizon = 1,
                       .step_limit = std::chrono::hours(24),  // a viewer may pause
                       .reset_limit = config.sampler.reset_limit});
  move_to_device(*agent, config.device);
  const auto result = evaluator.run([&] { return signals.caught() != 0; });
  for (const auto& sink : stage.sinks)
    if (signals.caught() == 0) sink->finish();  // Ctrl-C has interrupted ffmpeg, too
  stage.sinks.clear();                          // restores the terminal
  for (std::size_t i = 0; i < result.returns.size(); ++i)
    print_output("episode {}: return {:.2f} in {} steps\n", i + 1, result.returns[i],
                 result.lengths[i]);
  if (signals.caught() != 0) return 128 + signals.caught();
  if (flags.episodes > 1) print_result(result);
  if (!flags.video.empty()) print_output("{}\n", flags.video.string());
  return kSuccess;
}

}  // namespace

void add_play(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<PlayFlags>();
  auto* command = app.add_subcommand("play", "Watch a trained agent, or record a video of it");
  add_run(*command, flags->run, flags->checkpoint);
  command->add_option("--episodes", flags->episodes, "Number of episodes")->capture_default_str();
  command->add_option("--max-steps", flags->max_steps, "End each episode after so many steps");
  command->add_option("--seed", flags->seed, "Seed of the episodes")->capture_default_str();
  command
      ->add_option("--video", flags->video,
                   "Video file: .gif, or .mp4, .mkv, .webm or .mov, which need ffmpeg")
      ->type_name("FILE");
  command->add_flag("--live", flags->live,
                    "Show the episodes in a window, or in the terminal if there is no display");
  command->add_option("--fps", flags->fps,
                      "Steps per second; default: the rate of the environment");
  add_acting(*command, flags->device, flags->sample);
  command->callback(
      [flags, &chosen] { chosen = [flags](char** argv) { return play_command(*flags, argv); }; });
}

}  // namespace shoal::cli
