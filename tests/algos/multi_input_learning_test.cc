#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/dqn.h"
#include "shoal/algos/ppo.h"
#include "shoal/algos/sac.h"
#include "shoal/samplers/sampler.h"
#include "tests/support/picture_and_switch.h"

// Trainings on a task whose answer needs a picture and a number, with the model that "auto"
// chooses.
namespace shoal {
namespace {

constexpr std::int64_t kEnvs = 8;
const ModelOptions kModel{.name = "auto", .hidden = {64}};
const ModelOptions kSmallModel{
    .name = "auto", .hidden = {64}, .cnn = CnnKind::kLayers, .cnn_layers = {16, 3, 2}};

// The mean reward of greedy steps.
double greedy_reward(const EnvFactory& make_env, Agent& agent) {
  const auto judge = make_sampler(make_env, agent,
                                  {.kind = SamplerKind::kSerial,
                                   .horizon = 40,
                                   .envs = kEnvs,
                                   .stream = Stream::kEval,
                                   .greedy = true});
  return judge->collect().samples.reward.mean().item<double>();
}

double train_ppo(const ModelOptions& model, SamplerKind kind) {
  at::set_num_threads(1);
  const auto make_env = testing::make_picture_and_switch();
  const auto agent = make_actor_critic(make_env({})->spec(), model, {}, 1);
  const auto sampler = make_sampler(make_env, *agent, {.kind = kind, .horizon = 16, .envs = kEnvs});
  const auto ppo = make_ppo(*agent, {.learning_rate = 3e-3, .anneal_learning_rate = false});
  for (int i = 0; i < 40; ++i)
    ppo->update(sampler->collect().samples, {.steps = 0, .schedule_steps = 1});
  return greedy_reward(make_env, *agent);
}

TEST(MultiInputLearningTest, Ppo) { EXPECT_GT(train_ppo(kModel, SamplerKind::kParallelGpu), 0.95); }

TEST(MultiInputLearningTest, PpoWithResidualConvolutions) {
  auto model = kModel;
  model.cnn = CnnKind::kImpala;
  EXPECT_GT(train_ppo(model, SamplerKind::kSerial), 0.95);
}

TEST(MultiInputLearningTest, PpoWithMemory) {
  auto model = kModel;
  model.memory = MemoryKind::kLstm;
  model.memory_size = 32;
  EXPECT_GT(train_ppo(model, SamplerKind::kParallelCpu), 0.95);
}

TEST(MultiInputLearningTest, DuelingDqn) {
  at::set_num_threads(1);
  const auto make_env = testing::make_picture_and_switch();
  const auto spec = make_env({})->spec();
  const auto agent = make_q_agent(spec, kSmallModel, {.dueling = true}, 1);
  const auto sampler = make_sampler(make_env, *agent, {.horizon = 4, .envs = kEnvs});
  StepReplay replay(spec, kEnvs, {.size = 4000, .discount = 0.5});
  const auto dqn =
      make_dqn(*agent, replay, {.learning_rate = 2e-3, .batch = 64, .target_interval = 20});
  for (int i = 0; i < 120; ++i) {
    dqn->explore({.steps = i, .schedule_steps = 120}, true);
    replay.append(sampler->collect().samples);
    if (i >= 20) dqn->update({}, 8);
  }
  EXPECT_GT(greedy_reward(make_env, *agent), 0.95);
}

TEST(MultiInputLearningTest, Sac) {
  at::set_num_threads(1);
  const auto make_env = testing::make_picture_and_switch(/*real=*/true);
  const auto spec = make_env({})->spec();
  const auto agent = make_qpg_agent(spec, kSmallModel, {}, 1);
  const auto sampler = make_sampler(make_env, *agent, {.horizon = 4, .envs = kEnvs});
  StepReplay replay(spec, kEnvs, {.size = 4000, .discount = 0.5});
  const auto sac = make_sac(*agent, replay, {.learning_rate = 3e-3, .batch = 64, .alpha = 0.05});
  for (int i = 0; i < 150; ++i) {
    sac->explore({}, i >= 20);
    replay.append(sampler->collect().samples);
    if (i >= 20) sac->update({}, 8);
  }
  EXPECT_GT(greedy_reward(make_env, *agent), -0.15);
}

}  // namespace
}  // namespace shoal
