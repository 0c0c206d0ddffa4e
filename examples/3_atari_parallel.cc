// Atari: a convolutional network, and the frames that the agent sees. This training is too short to
// play well; `make run PRESET=pong-ppo` is long enough.
//
//   build/release/bin/examples/3_atari_parallel [steps]
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/ppo.h"
#include "shoal/envs/atari.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/launch.h"
#include "shoal/samplers/sampler.h"

namespace {

constexpr int kSize = 84;

// A character for a block of 2 x 4 pixels: their largest difference from the background.
char character(const std::uint8_t* pixels, int background) {
  int most = 0;
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 2; ++x) most = std::max(most, std::abs(pixels[y * kSize + x] - background));
  return " .:+#@"[std::min(most / 20, 5)];
}

// Shows the newest frame of environment 0. A frame is stored once, as uint8; stacks of four frames
// are formed where the network reads them.
void show(const shoal::Samples& samples) {
  const auto picture = samples.observation[0].select(0, samples.T).select(0, 0).contiguous();
  const auto* pixels = picture.const_data_ptr<std::uint8_t>();
  std::array<int, 256> histogram{};
  for (int i = 0; i < kSize * kSize; ++i) ++histogram[pixels[i]];
  const auto background = std::max_element(histogram.begin(), histogram.end()) - histogram.begin();
  for (int y = 0; y < kSize; y += 4) {
    std::string line;
    for (int x = 0; x < kSize; x += 2)
      line += character(pixels + y * kSize + x, static_cast<int>(background));
    fmt::print("  |{}|\n", line);
  }
}

}  // namespace

int main(int argc, char** argv) {
  shoal::launch(argv);     // must come first: it sets variables that libraries read at load time
  at::set_num_threads(1);  // until the workers are forked
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 100'000;

  const auto make_env = shoal::make_atari("ALE/Pong-v5", {.clip_reward = true});
  const auto agent = shoal::make_actor_critic(make_env({})->spec(),
                                              {.name = "nature-cnn", .shared_trunk = true}, {}, 1);
  const auto sampler = shoal::make_sampler(make_env, *agent, {.horizon = 128, .workers = 2});
  at::set_num_threads(static_cast<int>(shoal::allowed_cores().size()));
  const auto algo = shoal::make_ppo(*agent, {});

  shoal::Progress progress{.schedule_steps = steps};
  while (progress.steps < steps) {
    const shoal::Batch batch = sampler->collect();
    algo->update(batch.samples, progress);
    progress.steps += batch.samples.steps;

    show(batch.samples);
    fmt::print("{} steps; {:.1f} s of acting, {:.1f} s of waiting for the games\n", progress.steps,
               sampler->times().acting, sampler->times().waiting);
    for (const auto& episode : batch.episodes)
      fmt::print("game over in environment {}: {:+.0f}\n", episode.env, episode.score);
  }
}
