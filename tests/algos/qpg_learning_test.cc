#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <numeric>

#include "shoal/algos/ddpg.h"
#include "shoal/algos/sac.h"
#include "shoal/algos/td3.h"
#include "shoal/envs/registry.h"
#include "shoal/samplers/sampler.h"
#include "tests/support/picture_control.h"

namespace shoal {
namespace {

using MakeAlgo = std::function<std::unique_ptr<OffPolicyAlgo>(QpgAgent&, StepReplay&)>;

constexpr std::int64_t kEnvs = 4, kSteps = 16'000, kFirst = 1'000;

// The mean return of ten greedy episodes of a pendulum after a training, from sampler to
// parameters. One that is pushed at random gets about -1200; one that stands gets about -150.
double train_pendulum(const QpgAgentOptions& options, SamplerKind kind, const MakeAlgo& make) {
  at::set_num_threads(1);
  const auto make_env = make_env_factory("Pendulum-v1");
  const auto spec = make_env({})->spec();
  const auto agent = make_qpg_agent(spec, options, 1);
  const auto sampler = make_sampler(make_env, *agent, {.kind = kind, .horizon = 1, .envs = kEnvs});
  const auto judge = make_sampler(make_env, *agent,
                                  {.kind = SamplerKind::kSerial,
                                   .horizon = 200,
                                   .envs = 10,
                                   .stream = Stream::kEval,
                                   .greedy = true});
  StepReplay replay(spec, kEnvs, {.size = kSteps, .discount = 0.98});
  const auto algo = make(*agent, replay);
  for (std::int64_t done = 0; done < kSteps; done += kEnvs) {
    algo->explore({}, done >= kFirst);
    replay.append(sampler->collect().samples);
    if (done >= kFirst) algo->update({}, kEnvs);
  }
  const auto episodes = judge->collect().episodes;
  double sum = 0;
  for (const auto& episode : episodes) sum += episode.score;
  return sum / static_cast<double>(episodes.size());
}

// Some actions at random, the others with noise.
at::Tensor actions_of(SamplerKind kind, bool stochastic) {
  at::set_num_threads(1);
  const auto make_env = make_env_factory("Pendulum-v1");
  const auto agent = make_qpg_agent(make_env({})->spec(), {.stochastic = stochastic}, 1);
  agent->exploration().copy_(at::tensor({0.3F, 0.5F}));
  const auto sampler = make_sampler(make_env, *agent, {.kind = kind, .horizon = 20, .envs = 6});
  sampler->collect();
  return sampler->collect().samples.action[0].clone();
}

TEST(QpgLearningTest, ActsTheSameInEverySampler) {
  for (const bool stochastic : {false, true}) {
    const auto serial = actions_of(SamplerKind::kSerial, stochastic);
    EXPECT_TRUE(at::equal(serial, actions_of(SamplerKind::kParallelCpu, stochastic)));
    EXPECT_TRUE(at::equal(serial, actions_of(SamplerKind::kParallelGpu, stochastic)));
  }
}

const QpgAgentOptions kTwins{.stochastic = false, .hidden = {64, 64}};

TEST(QpgLearningTest, SacSwingsUpAPendulum) {
  EXPECT_GT(train_pendulum({.hidden = {64, 64}}, SamplerKind::kSerial,
                           [](QpgAgent& agent, StepReplay& replay) {
                             return make_sac(agent, replay, {.learning_rate = 1e-3});
                           }),
            -250);
}

TEST(QpgLearningTest, Td3SwingsUpAPendulumWithWorkersThatAct) {
  EXPECT_GT(train_pendulum(
                kTwins, SamplerKind::kParallelCpu,
                [](QpgAgent& agent, StepReplay& replay) { return make_td3(agent, replay, {}); }),
            -250);
}

TEST(QpgLearningTest, DdpgSwingsUpAPendulum) {
  EXPECT_GT(train_pendulum(
                {.stochastic = false, .critics = 1, .hidden = {64, 64}}, SamplerKind::kSerial,
                [](QpgAgent& agent, StepReplay& replay) { return make_ddpg(agent, replay, {}); }),
            -250);
}

// The mean reward of a greedy step after a training on pictures. The best one is 0, and the middle
// of the bounds gets -0.45.
double train_on_pictures(bool stochastic, SamplerKind kind, const MakeAlgo& make) {
  at::set_num_threads(1);
  const auto make_env = testing::make_bright_column(7);
  const auto spec = make_env({})->spec();
  const auto agent = make_qpg_agent(spec, {.name = testing::small_cnn(), .hidden = {32}},
                                    {.stochastic = stochastic}, 1);
  const auto sampler = make_sampler(make_env, *agent, {.kind = kind, .horizon = 4, .envs = kEnvs});
  const auto judge = make_sampler(make_env, *agent,
                                  {.kind = SamplerKind::kSerial,
                                   .horizon = 50,
                                   .envs = 4,
                                   .stream = Stream::kEval,
                                   .greedy = true});
  StepReplay replay(spec, kEnvs, {.size = 2000, .discount = 0.5});
  const auto algo = make(*agent, replay);
  for (int i = 0; i < 120; ++i) {
    algo->explore({}, i >= 20);
    replay.append(sampler->collect().samples);
    if (i >= 20) algo->update({}, 8);
  }
  return judge->collect().samples.reward.mean().item<double>();
}

TEST(QpgLearningTest, SacLearnsFromPictures) {
  EXPECT_GT(train_on_pictures(true, SamplerKind::kSerial,
                              [](QpgAgent& agent, StepReplay& replay) {
                                return make_sac(
                                    agent, replay,
                                    {.learning_rate = 3e-3, .batch = 64, .alpha = 0.05});
                              }),
            -0.1);
}

TEST(QpgLearningTest, Td3LearnsFromPicturesWithWorkersThatAct) {
  EXPECT_GT(train_on_pictures(false, SamplerKind::kParallelCpu,
                              [](QpgAgent& agent, StepReplay& replay) {
                                return make_td3(
                                    agent, replay,
                                    {.critic_rate = 3e-3, .policy_rate = 3e-3, .batch = 64});
                              }),
            -0.1);
}

}  // namespace
}  // namespace shoal
