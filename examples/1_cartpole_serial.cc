// The smallest training: an agent, a sampler, an algorithm, and a loop, all in one process. The
// program draws its learning curve.
//
//   build/release/bin/examples/1_cartpole_serial [steps]
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/ppo.h"
#include "shoal/envs/registry.h"
#include "shoal/runners/episode_window.h"
#include "shoal/samplers/sampler.h"

namespace {

void draw(std::int64_t steps, double mean_return) {
  const int length = static_cast<int>(mean_return / 10);
  fmt::print("{:>7} steps  return {:5.1f}  {:█<{}}\n", steps, mean_return, "", length);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 100'000;
  at::set_num_threads(1);  // the network is too small for several threads

  const auto make_env = shoal::make_env_factory("CartPole-v1");
  const auto agent = shoal::make_actor_critic(make_env({})->spec(), {.hidden = {64, 64}}, {}, 1);
  const auto sampler = shoal::make_sampler(
      make_env, *agent, {.kind = shoal::SamplerKind::kSerial, .horizon = 32, .envs = 16});
  const auto algo = shoal::make_ppo(*agent, {.learning_rate = 1e-3,
                                             .discount = 0.98,
                                             .gae_lambda = 0.8,
                                             .epochs = 10,
                                             .minibatches = 2,
                                             .clip = 0.2,
                                             .entropy_coef = 0});

  shoal::EpisodeWindow recent;  // the last 100 episodes
  shoal::Progress progress{.schedule_steps = steps};
  for (int rollout = 0; progress.steps < steps; ++rollout) {
    const shoal::Batch batch = sampler->collect();  // 32 steps in each of the 16 environments
    recent.add(batch.episodes);
    algo->update(batch.samples, progress);
    progress.steps += batch.samples.steps;
    if (rollout % 10 == 0 && recent.total() > 0) draw(progress.steps, recent.mean_score());
  }
}
