#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>

#include "algos/dqn/dqn_loss.h"
#include "shoal/agents/actor_critic.h"
#include "shoal/agents/q_agent.h"
#include "shoal/agents/recurrent_q_agent.h"
#include "shoal/algos/a2c.h"
#include "shoal/algos/dqn.h"
#include "shoal/algos/impala.h"
#include "shoal/algos/ppo.h"
#include "shoal/algos/r2d1.h"
#include "shoal/algos/returns.h"
#include "shoal/algos/sac.h"
#include "shoal/algos/td3.h"
#include "shoal/envs/classic_control.h"
#include "shoal/models/actor_critic.h"
#include "shoal/samplers/sampler.h"
#include "src/models/stacked_frames.h"
#include "tests/algos/qpg_oracle.h"
#include "tests/support/fake_accelerator.h"
#include "tests/support/plain_model.h"

// Learning on a device, with kernels and captured steps. The device is the CPU, with memory of its
// own.
namespace shoal {
namespace {

using testing::FakeAccelerator;
using AlgoFactory = std::function<std::unique_ptr<OnPolicyAlgo>(ActorCritic&)>;

NamedTensors copies_of(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, t] : tensors) all.add(name, t.detach().clone());
  return all;
}

class DeviceLearningTest : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  struct Run {
    NamedTensors parameters;
    std::vector<Metrics> metrics;
  };

  static constexpr int kRollouts = 6;

  Run run(const ModelOptions& model, const AlgoFactory& make_algo, bool mid_batch_reset) const {
    const auto make_env = make_cart_pole();
    const auto agent = testing::make_plain_actor_critic(make_env, model);
    const auto sampler = make_sampler(make_env, *agent,
                                      {.kind = SamplerKind::kSerial,
                                       .horizon = 16,
                                       .envs = 6,
                                       .mid_batch_reset = mid_batch_reset,
                                       .seed = 1});
    const auto algo = make_algo(*agent);
    Run out;
    for (int i = 0; i < kRollouts; ++i)
      out.metrics.push_back(algo->update(sampler->collect().samples, {i * 96, kRollouts * 96}));
    out.parameters = copies_of(agent->parameters());
    return out;
  }

  void expect_same(const ModelOptions& model, const AlgoFactory& make_algo,
                   bool mid_batch_reset = true) {
    const auto here = run(model, make_algo, mid_batch_reset);
    const FakeAccelerator::On on(fake_);
    const auto there = run(model, make_algo, mid_batch_reset);
    for (const auto& [name, p] : here.parameters)
      EXPECT_TRUE(at::allclose(p, there.parameters.at(name), 1e-4, 1e-5)) << name;
    for (std::size_t i = 0; i < here.metrics.size(); ++i)
      for (std::size_t k = 0; k < here.metrics[i].size(); ++k)
        EXPECT_NEAR(here.metrics[i][k].second, there.metrics[i][k].second, 1e-3)
            << here.metrics[i][k].first;
  }

  static AlgoFactory ppo(const PpoOptions& options) {
    return [=](ActorCritic& agent) { return make_ppo(agent, options); };
  }

  // Of the sampler, which acts for all at once.
  static constexpr int kActs = 16;

  FakeAccelerator fake_;
};

TEST_F(DeviceLearningTest, PpoIsRecorded) {
  expect_same({}, ppo({.learning_rate = 3e-3, .epochs = 3, .minibatches = 4, .value_clip = 0.2}));
  EXPECT_EQ(fake_.captures, kActs + 1);
  EXPECT_EQ(fake_.replays, kActs * (kRollouts - 2) + kRollouts * 12 - 2);
}

TEST_F(DeviceLearningTest, ParametersThatMoveAreRecordedAnew) {
  const FakeAccelerator::On on(fake_);
  const auto make_env = make_cart_pole();
  const auto agent = make_actor_critic(make_env({})->spec(), ModelOptions{}, {}, 3);
  const auto sampler = make_sampler(
      make_env, *agent, {.kind = SamplerKind::kSerial, .horizon = 16, .envs = 6, .seed = 1});
  const auto algo = make_ppo(*agent, {});
  const auto& rollout = sampler->collect().samples;
  for (int i = 0; i < 2; ++i) algo->update(rollout, {});
  EXPECT_EQ(fake_.captures, 1);
  for (auto& [name, p] : agent->parameters()) p.set_data(p.clone());
  for (int i = 0; i < 2; ++i) algo->update(rollout, {});
  EXPECT_EQ(fake_.captures, 2);
}

TEST_F(DeviceLearningTest, MinibatchesOfTwoSizesAreTwoRecordings) {
  expect_same({}, ppo({.epochs = 2, .minibatches = 5, .target_kl = 0.05}));
  EXPECT_EQ(fake_.captures, kActs + 2);
}

TEST_F(DeviceLearningTest, RmsPropAndAnAgentWithMemory) {
  expect_same({.memory = MemoryKind::kGru, .memory_size = 16},
              ppo({.learning_rate = 3e-3,
                   .optimizer = OptimizerKind::kRmsProp,
                   .minibatches = 2,
                   .normalize_advantage = NormalizeAdvantage::kRollout}));
  EXPECT_EQ(fake_.captures, kActs + 1);
}

TEST_F(DeviceLearningTest, A2c) {
  expect_same({}, [](ActorCritic& agent) { return make_a2c(agent, {}); });
  EXPECT_EQ(fake_.captures, kActs + 1);
}

TEST_F(DeviceLearningTest, Impala) {
  const AlgoFactory impala = [](ActorCritic& agent) {
    return make_impala(agent, {.learning_rate = 3e-3});
  };
  expect_same({}, impala);
  EXPECT_EQ(fake_.captures, kActs + 1);
  EXPECT_EQ(fake_.replays, (kActs + 1) * (kRollouts - 2));
  expect_same({.memory = MemoryKind::kLstm, .memory_size = 16}, impala);
  EXPECT_EQ(fake_.captures, 2 * (kActs + 1));
  expect_same({}, impala, false);
  EXPECT_EQ(fake_.captures, 2 * (kActs + 1));
}

// Updates that depend on more than the sizes of tensors are not captured, and still work.
TEST_F(DeviceLearningTest, WhatVariesIsNotRecorded) {
  expect_same({}, ppo({.learning_rate = 3e-3, .anneal_clip = true}));
  expect_same({}, ppo({.learning_rate = 3e-3, .gradient_accumulation = 2}));
  expect_same({}, ppo({.learning_rate = 3e-3,
                       .normalize_advantage = NormalizeAdvantage::kNone,
                       .vtrace = true}));
  EXPECT_EQ(fake_.captures, 3 * kActs);
  expect_same({}, ppo({.learning_rate = 3e-3}), false);
}

// Another way of learning than on the host: by tensor operations.
void expect_same_control(FakeAccelerator& fake, bool stochastic) {
  const QpgAgentOptions options{.stochastic = stochastic, .hidden = {24, 20}};
  const auto learn = [&] {
    const auto agent = make_qpg_agent(qpg_oracle::toy_env(), options, 3);
    auto replay = qpg_oracle::make_replay(true);
    replay.append(qpg_oracle::make_rollout());
    const auto algo =
        stochastic
            ? make_sac(*agent, replay, {.learning_rate = 1e-2, .batch = qpg_oracle::kBatch})
            : make_td3(*agent, replay,
                       {.critic_rate = 1e-2, .policy_rate = 1e-2, .batch = qpg_oracle::kBatch});
    for (std::int64_t i = 0; i < 5; ++i) algo->update({.steps = i, .schedule_steps = 10}, 4);
    return copies_of(agent->parameters());
  };
  const auto here = learn();
  const FakeAccelerator::On on(fake);
  const auto there = learn();
  for (const auto& [name, p] : here)
    EXPECT_LT((p - there.at(name)).abs().max().item<double>(), 1e-3) << name;
}

TEST_F(DeviceLearningTest, SacIsRecorded) {
  expect_same_control(fake_, true);
  EXPECT_EQ(fake_.captures, 1);
  EXPECT_EQ(fake_.replays, 20 - 2);
}

TEST_F(DeviceLearningTest, Td3IsRecordedWithAndWithoutThePolicysStep) {
  expect_same_control(fake_, false);
  EXPECT_EQ(fake_.captures, 2);
  EXPECT_EQ(fake_.replays, 20 - 4);
}

// Every kind of returns, with noise that is drawn for each update, and without.
TEST_F(DeviceLearningTest, DqnIsRecorded) {
  for (const auto returns : {ReturnKind::kMean, ReturnKind::kCategorical, ReturnKind::kQuantile}) {
    for (const bool noisy : {false, true}) {
      const auto learn = [&] {
        const auto make_env = make_cart_pole();
        const auto spec = make_env({})->spec();
        const auto agent = make_q_agent(spec, ModelOptions{.hidden = {24}},
                                        {.returns = returns, .atoms = 11, .noisy = noisy}, 3);
        const auto sampler = make_sampler(
            make_env, *agent, {.kind = SamplerKind::kSerial, .horizon = 40, .envs = 4, .seed = 1});
        StepReplay replay(spec, 4, {.size = 400, .prioritized = true});
        replay.append(sampler->collect().samples);
        const auto dqn =
            make_dqn(*agent, replay, {.learning_rate = 1e-2, .batch = 16, .target_interval = 3});
        for (std::int64_t i = 0; i < 5; ++i) dqn->update({.steps = i, .schedule_steps = 10}, 4);
        return copies_of(agent->parameters());
      };
      const auto here = learn();
      const FakeAccelerator::On on(fake_);
      const int before = fake_.captures, replayed = fake_.replays;
      const auto there = learn();
      for (const auto& [name, p] : here)
        EXPECT_TRUE(at::allclose(p, there.at(name), 1e-3, 1e-4)) << name << " noisy " << noisy;
      EXPECT_EQ(fake_.captures - before, 1);
      EXPECT_EQ(fake_.replays - replayed, 20 - 2);
    }
  }
}

TEST_F(DeviceLearningTest, R2d1IsRecorded) {
  const auto learn = [&] {
    const auto make_env = make_cart_pole();
    const auto spec = make_env({})->spec();
    const auto agent = make_recurrent_q_agent(
        spec, {.hidden = {16}, .memory = MemoryKind::kGru, .memory_size = 8}, {}, 3);
    const auto sampler = make_sampler(
        make_env, *agent,
        {.kind = SamplerKind::kSerial, .horizon = 10, .envs = 4, .seed = 1, .host_rollouts = true});
    SequenceReplay replay(spec, agent->spec().state, 4,
                          {.size = 400, .burn_in = 3, .length = 8, .interval = 10, .n_step = 2});
    for (int rollout = 0; rollout < 6; ++rollout) replay.append(sampler->collect().samples);
    const auto r2d1 =
        make_r2d1(*agent, replay, {.learning_rate = 1e-2, .batch = 5, .target_interval = 3});
    for (std::int64_t i = 0; i < 5; ++i) r2d1->update({.steps = i, .schedule_steps = 10}, 4);
    return copies_of(agent->parameters());
  };
  const auto here = learn();
  const FakeAccelerator::On on(fake_);
  const auto there = learn();
  for (const auto& [name, p] : here)
    EXPECT_TRUE(at::allclose(p, there.at(name), 1e-3, 1e-4)) << name;
  constexpr int kSteps = 10;  // of the sampler, each captured
  EXPECT_EQ(fake_.captures, kSteps + 1);
  EXPECT_EQ(fake_.replays, kSteps * 4 + 20 - 2);
}

TEST_F(DeviceLearningTest, PicturesAreFormedByTheKernel) {
  torch::manual_seed(1);
  const auto bytes = [](at::IntArrayRef shape) { return at::randint(0, 256, shape, at::kByte); };
  const auto index = at::randint(-1, 9, {5, 4}, at::kLong);
  for (const Observed& o : {Observed{bytes({9, 6, 5}), index}, Observed{bytes({9, 3, 6, 5}), index},
                            Observed{bytes({5, 6, 5}), {}}, Observed{bytes({5, 3, 6, 5}), {}}}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto here = images(o, type);
      const FakeAccelerator::On on(fake_);
      const auto there = images(o, type);
      EXPECT_TRUE(at::equal(here, there)) << o.data.sizes();
      EXPECT_EQ(here.strides(), there.strides());
    }
  }
}

TEST_F(DeviceLearningTest, CategoricalTargetsAreProjectedByTheKernel) {
  torch::manual_seed(1);
  const auto probability = at::randn({7, 11}).softmax(1), support = at::linspace(-3, 3, 11);
  const auto reward = at::randn({7}) * 2, discount = at::rand({7});
  const auto here = project(probability, reward, discount, support);
  const FakeAccelerator::On on(fake_);
  EXPECT_TRUE(at::equal(here, project(probability, reward, discount, support)));
}

}  // namespace
}  // namespace shoal
