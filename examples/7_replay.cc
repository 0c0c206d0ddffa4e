// Learning from a replay: DQN on CartPole. The replay stores the steps of many rollouts and draws
// them at random. The loop decides how often.
//
//   build/release/bin/examples/7_replay [steps]
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>

#include "shoal/algos/dqn.h"
#include "shoal/envs/registry.h"
#include "shoal/runners/evaluation.h"
#include "shoal/samplers/sampler.h"

const shoal::DqnOptions kDqn{.learning_rate = 2e-3,
                             .anneal_learning_rate = true,
                             .batch = 128,
                             .target_interval = 50,
                             .huber_delta = 0,
                             .exploration_fraction = 0.3};

int main(int argc, char** argv) {
  at::set_num_threads(1);
  constexpr std::int64_t kEnvs = 8, kHorizon = 4, kRandomSteps = 1000;
  // [program]
  const auto make_env = shoal::make_env_factory("CartPole-v1");
  const auto env = make_env({})->spec();
  const auto agent = shoal::make_q_agent(env, {.hidden = {64, 64}}, {.dueling = true}, 1);
  const auto sampler = shoal::make_sampler(
      make_env, *agent, {.kind = shoal::SamplerKind::kSerial, .horizon = kHorizon, .envs = kEnvs});
  shoal::StepReplay replay(env, kEnvs, {.size = 50'000, .n_step = 3});
  const auto algo = shoal::make_dqn(*agent, replay, kDqn);

  shoal::Progress progress{.schedule_steps = argc > 1 ? std::atoll(argv[1]) : 100'000};
  while (progress.remaining() > 0) {
    const bool learning = progress.steps >= kRandomSteps;
    algo->explore(progress, learning);  // epsilon of the next rollout
    const shoal::Batch batch = sampler->collect();
    replay.append(batch.samples);
    // 32 steps were taken. 8 batches of 128 draw 32 steps for each of them.
    if (learning) algo->update(progress, 8);
    progress.steps += batch.samples.steps;
  }
  // [program]

  shoal::Evaluator evaluator(make_env, *agent,
                             {.episodes = 20, .kind = shoal::SamplerKind::kSerial});
  fmt::print("On fresh seeds: {:.0f} points of 500\n", evaluator.run().mean_return);
}
