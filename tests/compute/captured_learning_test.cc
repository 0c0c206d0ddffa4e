#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "shoal/agents/actor_critic.h"
#include "shoal/agents/q_agent.h"
#include "shoal/agents/qpg_agent.h"
#include "shoal/agents/recurrent_q_agent.h"
#include "shoal/algos/a2c.h"
#include "shoal/algos/ddpg.h"
#include "shoal/algos/dqn.h"
#include "shoal/algos/impala.h"
#include "shoal/algos/ppo.h"
#include "shoal/algos/r2d1.h"
#include "shoal/algos/sac.h"
#include "shoal/algos/td3.h"
#include "shoal/core/rng.h"
#include "shoal/envs/classic_control.h"
#include "shoal/samplers/sampler.h"
#include "tests/algos/qpg_oracle.h"
#include "tests/support/device_under_test.h"
#include "tests/support/picture_control.h"
#include "tests/support/random_pictures.h"
#include "tests/support/toy_envs.h"

// Every algorithm learns bitwise the same with captured graphs and eagerly, while learning rates,
// schedules, epsilons, betas and batches change. So do agents that act.
namespace shoal {
namespace {

using testing::StandInDevice;
using testing::TestDevice;

// The complete result of learning.
struct Learned {
  std::vector<Metrics> metrics;
  NamedTensors tensors;  // parameters, and the algorithm's state

  template <class Algo>
  void add(Agent& agent, Algo& algo) {
    for (const auto& all : {agent.parameters(), algo.state()})
      for (const auto& [name, t] : all)
        tensors.add(std::to_string(tensors.size()) + " " + name, t.detach().cpu().clone());
  }
};

class CapturedLearningTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    if (const auto why = device_.open(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override { EXPECT_EQ(StandInDevice::faults(), std::vector<std::string>{}); }

  // replays: the minimum number of graph replays. A GPU may choose other matrix kernels for a
  // graph.
  void expect_same(const std::function<Learned()>& learn, int replays) {
    device_.watched().captures = false;
    const auto eager = learn();
    EXPECT_EQ(device_.watched().replays, 0);
    device_.watched().captures = true;
    device_.watched().refusals.clear();
    const auto captured = learn();
    EXPECT_EQ(device_.watched().refusals, std::vector<std::string>{});
    EXPECT_GE(device_.watched().replays, replays);
    double largest = 0;
    for (const auto& [name, t] : eager.tensors) {
      EXPECT_TRUE(t.isfinite().all().item<bool>()) << name;
      const auto other = captured.tensors.at(name).to(at::kDouble);
      const auto off = (t.to(at::kDouble) - other).abs().max().item<double>();
      EXPECT_TRUE(off <= (device_.device().is_cuda() ? 1e-3 : 0)) << name << " is off by " << off;
      largest = std::max(largest, off);
    }
    if (!device_.device().is_cuda()) {
      EXPECT_EQ(eager.metrics, captured.metrics);
    }
    fmt::print("captured beside eager, {}: {} graphs, {} replays, {}\n",
               ::testing::UnitTest::GetInstance()->current_test_info()->name(),
               device_.watched().captured, device_.watched().replays.load(),
               largest == 0 ? "equal to the last bit" : fmt::format("off by {:.2g}", largest));
    device_.watched().replays = device_.watched().captured = 0;
  }

  static constexpr int kRollouts = 7;
  using AlgoFactory = std::function<std::unique_ptr<OnPolicyAlgo>(ActorCritic&)>;

  // Rollouts of a sampler that also acts on the device, over the whole schedule.
  Learned learn_from_rollouts(const EnvFactory& make_env, const ModelOptions& model,
                              const AlgoFactory& make_algo,
                              const ActorCriticOptions& options = {}) const {
    const auto agent = make_actor_critic(make_env({})->spec(), model, options, 3);
    agent->to(device_.device());
    const auto sampler = make_sampler(
        make_env, *agent, {.kind = SamplerKind::kSerial, .horizon = 8, .envs = 6, .seed = 1});
    const auto algo = make_algo(*agent);
    Learned out;
    for (int i = 0; i < kRollouts; ++i)
      out.metrics.push_back(
          algo->update(sampler->collect().samples, {.steps = i, .schedule_steps = kRollouts}));
    out.add(*agent, *algo);
    return out;
  }
  void expect_same_from_rollouts(const ModelOptions& model, const AlgoFactory& make_algo,
                                 int updates) {
    expect_same([&] { return learn_from_rollouts(make_cart_pole(), model, make_algo); }, updates);
  }
  void expect_same_ppo(const PpoOptions& options, const ModelOptions& model = {}) {
    const int updates = kRollouts * options.epochs * options.minibatches;
    expect_same_from_rollouts(
        model, [&](ActorCritic& agent) { return make_ppo(agent, options); }, updates - 4);
  }

  // Batches of a replay; between two updates a sampler that acts on the device collects a rollout.
  template <class Agent, class Replay>
  static Learned learn_from_replay(Agent& agent, Replay& replay, OffPolicyAlgo& algo,
                                   const EnvFactory& make_env, std::int64_t horizon) {
    const auto sampler = make_sampler(make_env, agent,
                                      {.kind = SamplerKind::kSerial,
                                       .horizon = horizon,
                                       .envs = 4,
                                       .seed = 1,
                                       .host_rollouts = true});
    Learned out;
    for (std::int64_t i = 0; i < kRollouts; ++i) {
      const Progress progress{.steps = i, .schedule_steps = kRollouts};
      algo.explore(progress, /*learning=*/i > 0);
      replay.append(sampler->collect().samples);
      if (i > 1) out.metrics.push_back(algo.update(progress, 4));
    }
    out.add(agent, algo);
    return out;
  }
  static constexpr int kUpdates = (kRollouts - 2) * 4;

  testing::DeviceUnderTest device_;
};

TEST_P(CapturedLearningTest, Ppo) {
  expect_same_ppo({.learning_rate = 3e-3, .epochs = 3, .minibatches = 4, .value_clip = 0.2});
  expect_same_ppo({.learning_rate = 3e-3, .epochs = 2, .minibatches = 2, .target_kl = 1});
}

TEST_P(CapturedLearningTest, PpoWithRmsPropAndAdvantagesNormalizedOverTheRollout) {
  expect_same_ppo({.learning_rate = 3e-3,
                   .optimizer = OptimizerKind::kRmsProp,
                   .max_grad_norm = 0,
                   .normalize_advantage = NormalizeAdvantage::kRollout});
}

TEST_P(CapturedLearningTest, PpoOfAnAgentWithMemory) {
  expect_same_ppo({.learning_rate = 3e-3, .epochs = 2, .minibatches = 2},
                  {.memory = MemoryKind::kGru, .memory_size = 16});
}

TEST_P(CapturedLearningTest, PpoWithEveryKindOfActionMasksAndDictionaries) {
  const PpoOptions options{.learning_rate = 3e-3, .epochs = 2, .minibatches = 2};
  const auto ppo = [&](ActorCritic& agent) { return make_ppo(agent, options); };
  for (const auto& make_env : {testing::make_gestures(), testing::make_zoo()})
    expect_same([&] { return learn_from_rollouts(make_env, {}, ppo); }, kRollouts * 4 - 4);
}

TEST_P(CapturedLearningTest, PpoFromNormalizedObservationsWithActionsWithinBounds) {
  const PpoOptions options{.learning_rate = 3e-3, .epochs = 2, .minibatches = 2};
  const auto ppo = [&](ActorCritic& agent) { return make_ppo(agent, options); };
  for (const bool network_std : {false, true}) {
    const ActorCriticOptions acting{
        .normalize_observation = true, .network_std = network_std, .squash = network_std};
    expect_same([&] { return learn_from_rollouts(make_pendulum(), {}, ppo, acting); },
                kRollouts * 4 - 4);
  }
}

TEST_P(CapturedLearningTest, PpoFromPictures) {
  const PpoOptions options{.learning_rate = 1e-3, .epochs = 1, .minibatches = 2};
  const auto ppo = [&](ActorCritic& agent) { return make_ppo(agent, options); };
  for (const auto precision : {Precision::kFloat32, Precision::kBf16}) {
    const ModelOptions model{.name = "nature-cnn", .precision = precision};
    expect_same([&] { return learn_from_rollouts(testing::make_random_pictures(), model, ppo); },
                kRollouts * 2 - 4);
  }
}

TEST_P(CapturedLearningTest, A2c) {
  expect_same_from_rollouts(
      {}, [](ActorCritic& agent) { return make_a2c(agent, {}); }, kRollouts - 2);
}

TEST_P(CapturedLearningTest, Impala) {
  const auto impala = [](ActorCritic& agent) {
    return make_impala(agent, {.learning_rate = 3e-3});
  };
  expect_same_from_rollouts({}, impala, kRollouts - 2);
  expect_same_from_rollouts({.memory = MemoryKind::kLstm, .memory_size = 16}, impala,
                            kRollouts - 2);
}

TEST_P(CapturedLearningTest, Dqn) {
  for (const auto returns : {ReturnKind::kMean, ReturnKind::kCategorical, ReturnKind::kQuantile}) {
    for (const bool rainbow : {false, true}) {
      SCOPED_TRACE(fmt::format("returns {}, rainbow {}", static_cast<int>(returns), rainbow));
      expect_same(
          [&] {
            const auto make_env = make_cart_pole();
            const auto spec = make_env({})->spec();
            const auto agent = make_q_agent(spec, ModelOptions{.hidden = {24}},
                                            {.dueling = rainbow,
                                             .returns = returns,
                                             .atoms = 11,
                                             .noisy = rainbow,
                                             .epsilons = rainbow ? 1 : 4},
                                            3);
            agent->to(device_.device());
            StepReplay replay(spec, 4, {.size = 100, .n_step = 3, .prioritized = rainbow});
            const auto dqn = make_dqn(*agent, replay,
                                      {.learning_rate = 1e-2,
                                       .anneal_learning_rate = true,
                                       .batch = 16,
                                       .double_q = rainbow,
                                       .target_interval = 3,
                                       .exploration_fraction = 1});
            return learn_from_replay(*agent, replay, *dqn, make_env, 10);
          },
          kUpdates - 2);
    }
  }
}

TEST_P(CapturedLearningTest, DqnFromPictures) {
  expect_same(
      [&] {
        const auto make_env = testing::make_random_pictures();
        const auto spec = make_env({})->spec();
        const auto agent = make_q_agent(spec, ModelOptions{.name = "nature-cnn"}, {}, 3);
        agent->to(device_.device());
        StepReplay replay(spec, 4, {.size = 60});
        const auto dqn = make_dqn(*agent, replay, {.learning_rate = 1e-3, .batch = 4});
        return learn_from_replay(*agent, replay, *dqn, make_env, 3);
      },
      kUpdates - 2);
}

TEST_P(CapturedLearningTest, R2d1) {
  for (const auto memory : {MemoryKind::kGru, MemoryKind::kLstm})
    expect_same(
        [&] {
          const auto make_env = make_cart_pole();
          const auto spec = make_env({})->spec();
          const auto agent = make_recurrent_q_agent(
              spec, {.hidden = {16}, .memory = memory, .memory_size = 8}, {}, 3);
          agent->to(device_.device());
          SequenceReplay replay(spec, agent->spec().state, 4,
                                {.size = 400,
                                 .burn_in = 2,
                                 .length = 4,
                                 .interval = 10,
                                 .n_step = 2,
                                 .prioritized = true});
          const auto r2d1 = make_r2d1(*agent, replay,
                                      {.learning_rate = 1e-2,
                                       .anneal_learning_rate = true,
                                       .batch = 5,
                                       .target_interval = 3,
                                       .exploration_fraction = 1});
          return learn_from_replay(*agent, replay, *r2d1, make_env, 10);
        },
        kUpdates - 2);
}

class CapturedQpgTest : public CapturedLearningTest {
 protected:
  template <class Make>
  void expect_same_control(const QpgAgentOptions& options, const Make& make) {
    expect_same_control(
        make_pendulum(), [&](const EnvSpec& spec) { return make_qpg_agent(spec, options, 3); },
        make);
  }
  template <class MakeAgent, class Make>
  void expect_same_control(const EnvFactory& make_env, const MakeAgent& make_agent,
                           const Make& make) {
    expect_same(
        [&] {
          const auto spec = make_env({})->spec();
          const auto agent = make_agent(spec);
          agent->to(device_.device());
          StepReplay replay(spec, 4, {.size = 100, .n_step = 2, .prioritized = true});
          const auto algo = make(*agent, replay);
          return learn_from_replay(*agent, replay, *algo, make_env, 10);
        },
        kUpdates - 4);
  }
};

TEST_P(CapturedQpgTest, Sac) {
  expect_same_control({.hidden = {24, 20}}, [](QpgAgent& agent, StepReplay& replay) {
    return make_sac(agent, replay,
                    {.learning_rate = 1e-2, .anneal_learning_rate = true, .batch = 20});
  });
}

TEST_P(CapturedQpgTest, Td3) {
  expect_same_control(
      {.stochastic = false, .hidden = {24}}, [](QpgAgent& agent, StepReplay& replay) {
        return make_td3(
            agent, replay,
            {.critic_rate = 1e-2, .policy_rate = 1e-2, .anneal_learning_rate = true, .batch = 20});
      });
}

TEST_P(CapturedQpgTest, Ddpg) {
  expect_same_control(
      {.stochastic = false, .critics = 1, .hidden = {24}}, [](QpgAgent& agent, StepReplay& replay) {
        return make_ddpg(
            agent, replay,
            {.critic_rate = 1e-2, .policy_rate = 1e-2, .anneal_learning_rate = true, .batch = 20});
      });
}

TEST_P(CapturedQpgTest, FromPictures) {
  const auto make_env = testing::make_bright_column(7, 2);
  for (const bool stochastic : {true, false}) {
    expect_same_control(
        make_env,
        [&](const EnvSpec& spec) {
          return make_qpg_agent(spec, {.name = testing::small_cnn(), .hidden = {24}},
                                {.stochastic = stochastic}, 3);
        },
        [&](QpgAgent& agent, StepReplay& replay) {
          return stochastic ? make_sac(agent, replay, {.learning_rate = 1e-2, .batch = 20})
                            : make_td3(agent, replay,
                                       {.critic_rate = 1e-2, .policy_rate = 1e-2, .batch = 20});
        });
  }
}

INSTANTIATE_TEST_SUITE_P(On, CapturedLearningTest,
                         ::testing::Values(TestDevice::kNoGpu, TestDevice::kGpu), testing::name_of);
INSTANTIATE_TEST_SUITE_P(On, CapturedQpgTest,
                         ::testing::Values(TestDevice::kNoGpu, TestDevice::kGpu), testing::name_of);

}  // namespace
}  // namespace shoal
