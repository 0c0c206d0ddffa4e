#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "shoal/algos/dqn.h"
#include "shoal/envs/registry.h"
#include "shoal/samplers/sampler.h"

namespace shoal {
namespace {

// A pole that falls at random stays up for 22 steps. The mean score of the last episodes of a
// training on CartPole, from sampler to parameters.
double train_on_cart_pole(SamplerKind kind, bool prioritized, std::int64_t steps) {
  constexpr std::int64_t kEnvs = 8, kHorizon = 4;
  at::set_num_threads(1);
  const auto make_env = make_env_factory("CartPole-v1");
  const auto spec = make_env({})->spec();
  const auto agent = make_q_agent(spec, ModelOptions{.hidden = {64, 64}}, {.dueling = true}, 1);
  const auto sampler =
      make_sampler(make_env, *agent, {.kind = kind, .horizon = kHorizon, .envs = kEnvs});
  StepReplay replay(spec, kEnvs, {.size = 20'000, .n_step = 3, .prioritized = prioritized});
  const auto dqn = make_dqn(*agent, replay,
                            {.learning_rate = 1e-3,
                             .batch = 64,
                             .target_interval = 200,
                             .epsilon_end = 0.02,
                             .exploration_fraction = 0.3});
  std::vector<double> scores;
  for (std::int64_t done = 0; done < steps; done += kEnvs * kHorizon) {
    const Progress progress{.steps = done, .schedule_steps = steps};
    dqn->explore(progress, true);
    const auto batch = sampler->collect();
    replay.append(batch.samples);
    for (const auto& episode : batch.episodes) scores.push_back(episode.score);
    if (done >= 1000) dqn->update(progress, 8);
  }
  const auto last = std::min<std::size_t>(scores.size(), 50);
  return std::accumulate(scores.end() - static_cast<std::ptrdiff_t>(last), scores.end(), 0.0) /
         static_cast<double>(last);
}

TEST(DqnLearningTest, CartPole) {
  EXPECT_GT(train_on_cart_pole(SamplerKind::kSerial, false, 40'000), 150);
}

TEST(DqnLearningTest, CartPoleByPriorityWithWorkersThatAct) {
  EXPECT_GT(train_on_cart_pole(SamplerKind::kParallelCpu, true, 40'000), 150);
}

}  // namespace
}  // namespace shoal
