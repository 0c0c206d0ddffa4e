#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "shoal/algos/r2d1.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/wrappers.h"
#include "shoal/samplers/sampler.h"

namespace shoal {
namespace {

// CartPole without velocities, from sampler to parameters. A pole that falls at random stays up for
// 22 steps; an agent without memory hardly does better than 50. The mean score of the last
// episodes.
double train_without_velocities(std::int64_t steps) {
  constexpr std::int64_t kEnvs = 16, kHorizon = 10;
  at::set_num_threads(1);
  const auto make_env = with_observation_elements(make_cart_pole(), {0, 2});
  const auto spec = make_env({})->spec();
  const auto agent =
      make_recurrent_q_agent(spec, {.hidden = {64}, .memory = MemoryKind::kGru, .memory_size = 64},
                             {.epsilons = kEnvs}, 1);
  const auto sampler = make_sampler(
      make_env, *agent, {.kind = SamplerKind::kSerial, .horizon = kHorizon, .envs = kEnvs});
  SequenceReplay replay(spec, agent->spec().state, kEnvs,
                        {.size = 50'000,
                         .burn_in = 10,
                         .length = 20,
                         .interval = kHorizon,
                         .n_step = 3,
                         .discount = 0.99});
  const auto r2d1 = make_r2d1(*agent, replay,
                              {.learning_rate = 1e-3,
                               .batch = 32,
                               .target_interval = 100,
                               .epsilon_end = 0.1,
                               .exploration_fraction = 0.3,
                               .epsilon_last = 0.005});
  std::vector<double> scores;
  for (std::int64_t done = 0; done < steps; done += kEnvs * kHorizon) {
    const Progress progress{.steps = done, .schedule_steps = steps};
    r2d1->explore(progress, done >= 2000);
    const auto batch = sampler->collect();
    replay.append(batch.samples);
    for (const auto& episode : batch.episodes) scores.push_back(episode.score);
    if (done >= 2000) r2d1->update(progress, 4);
  }
  const auto last = std::min<std::size_t>(scores.size(), 50);
  return std::accumulate(scores.end() - static_cast<std::ptrdiff_t>(last), scores.end(), 0.0) /
         static_cast<double>(last);
}

TEST(R2d1LearningTest, CartPoleWithoutVelocities) {
  EXPECT_GT(train_without_velocities(100'000), 300);
}

}  // namespace
}  // namespace shoal
