// The same training with forked workers. They step the environments and write directly to shared
// memory, while this process acts for all of them in one batch. Then the trained agent plays
// episodes that no training environment has seen.
//
//   build/release/bin/examples/2_cartpole_parallel [steps]
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/ppo.h"
#include "shoal/envs/registry.h"
#include "shoal/runners/episode_window.h"
#include "shoal/runners/evaluation.h"
#include "shoal/samplers/sampler.h"

namespace {
constexpr shoal::PpoOptions kPpo = {.learning_rate = 1e-3,
                                    .discount = 0.98,
                                    .gae_lambda = 0.8,
                                    .epochs = 10,
                                    .minibatches = 2,
                                    .clip = 0.2,
                                    .entropy_coef = 0};
}  // namespace

// [program]
int main(int argc, char** argv) {
  at::set_num_threads(1);  // start no threads before the workers are forked
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 200'000;

  const auto make_env = shoal::make_env_factory("CartPole-v1");
  const auto agent = shoal::make_actor_critic(make_env({})->spec(), {.hidden = {64, 64}}, {}, 1);
  const auto sampler = shoal::make_sampler(make_env, *agent, {.horizon = 32, .workers = 2});
  shoal::Evaluator evaluator(make_env, *agent, {.episodes = 20});  // workers and seeds of its own
  const auto algo = shoal::make_ppo(*agent, kPpo);

  shoal::EpisodeWindow recent;  // the last 100 episodes
  shoal::Progress progress{.schedule_steps = steps};
  while (progress.steps < steps && !(recent.full() && recent.mean_score() >= 475)) {
    const shoal::Batch batch = sampler->collect();  // tensors [T, B, ...] in shared memory
    recent.add(batch.episodes);
    algo->update(batch.samples, progress);
    progress.steps += batch.samples.steps;
    fmt::print(stderr, "\r{:>7} steps  return {:3.0f}", progress.steps, recent.mean_score());
  }
  fmt::print("\nOn fresh seeds: {:.0f} points of 500\n", evaluator.run().mean_return);
}
// [program]
