#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "shoal/agents/actor_critic.h"
#include "shoal/agents/q_agent.h"
#include "shoal/envs/classic_control.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/fake_accelerator.h"
#include "tests/support/plain_model.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// An agent on a device, to which the rows are copied, and on which the steps are captured graphs.
// The device is the stand-in: the CPU, with separate memory.
namespace shoal::device_test {
namespace {

using testing::FakeAccelerator;
using testing::make_gestures;
using testing::make_zoo;
using testing::ToyAgent;

using AgentFactory = std::function<std::unique_ptr<Agent>()>;

AgentFactory plain(const EnvFactory& make_env, const ModelOptions& model = {},
                   const ActorCriticOptions& options = {}) {
  return [=] { return testing::make_plain_actor_critic(make_env, model, options); };
}

struct Collected {
  int rollouts = 6;
  std::int64_t horizon = 7, envs = 6;
  bool mid_batch_reset = true;
  bool host_rollouts = false;
  std::int64_t batch = 0;  // dynamic_batch
  double tolerance = 0;    // for results of exp and log
  bool saves = false;      // saves after each rollout: resets environments that cannot be saved
  std::function<void(Agent&, int)> between = [](Agent&, int) {};
};

class DeviceTest : public ::testing::TestWithParam<Workforce> {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  // A sampler on the device collects the same samples as one on the CPU.
  void expect_same(const EnvFactory& make_env, const AgentFactory& make_agent,
                   const Collected& c = {}) {
    auto o = serial(c.horizon, c.envs);
    o.mid_batch_reset = c.mid_batch_reset;
    auto there = o;
    employ(there, GetParam());
    there.host_rollouts = c.host_rollouts;
    there.dynamic_batch = c.batch;
    const auto agent = make_agent();
    const auto here = make_sampler(make_env, *agent, o);
    std::unique_ptr<Agent> other;
    std::unique_ptr<Sampler> sampler;
    {
      const FakeAccelerator::On on(fake_);
      other = make_agent();
      sampler = make_sampler(make_env, *other, there);
    }
    for (int i = 0; i < c.rollouts && !HasFailure(); ++i) {
      c.between(*agent, i);
      c.between(*other, i);
      const auto one = here->collect();
      const FakeAccelerator::On on(fake_);
      const auto two = sampler->collect();
      if (c.tolerance == 0) {
        expect_same_batches(one, two);
      } else {
        expect_equal(one.samples.observation, two.samples.observation, "observation");
        expect_equal(one.samples.is_first, two.samples.is_first, "first");
        expect_near(one.samples.action, two.samples.action, c.tolerance);
        expect_near(one.samples.agent_info, two.samples.agent_info, c.tolerance);
      }
      if (c.saves) {
        EXPECT_FALSE(i > 0 && !two.samples.is_first[0].all().item<bool>());
        here->save(/*reset_others=*/true);
        sampler->save(/*reset_others=*/true);
      }
    }
    uploaded_ = sampler->times().uploaded_bytes;
    const FakeAccelerator::On on(fake_);
    sampler.reset();
    EXPECT_EQ(fake_.pins, 0);
  }

  // Number of replays: each step runs eagerly in the first two rollouts.
  static int replays(const Collected& c) {
    return static_cast<int>(c.rollouts - 2) * static_cast<int>(c.horizon) * std::get<2>(GetParam());
  }

  FakeAccelerator fake_;
  std::int64_t uploaded_ = 0;
};

TEST_P(DeviceTest, DictionariesMasksStacksAndState) {
  const AgentFactory toy = [] { return std::make_unique<ToyAgent>(3); };
  expect_same(make_zoo(), toy);
  EXPECT_EQ(fake_.replays, replays({}));
  EXPECT_EQ(fake_.captures, replays({}) / 4);
  for (const std::int64_t horizon : {1, 2, 8}) expect_same(make_zoo(), toy, {.horizon = horizon});
}

TEST_P(DeviceTest, RolloutsMayStayOnTheHost) {
  const AgentFactory toy = [] { return std::make_unique<ToyAgent>(3); };
  expect_same(make_zoo(), toy, {.host_rollouts = true});
  expect_same(make_zoo(), toy, {.mid_batch_reset = false, .host_rollouts = true});
}

TEST_P(DeviceTest, ResetsThatWaitAreNotRecorded) {
  const AgentFactory toy = [] { return std::make_unique<ToyAgent>(3); };
  expect_same(make_zoo(), toy, {.mid_batch_reset = false});
  EXPECT_EQ(fake_.captures, 0);
}

TEST_P(DeviceTest, WhatCannotBeRecordedIsDoneStepByStep) {
  fake_.refuses = true;
  expect_same(make_zoo(), [] { return std::make_unique<ToyAgent>(3); });
  EXPECT_EQ(fake_.replays, 0);
}

TEST_P(DeviceTest, NoiseOfChoices) {
  expect_same(make_cart_pole(), plain(make_cart_pole()), {.tolerance = 1e-5});
  expect_same(make_gestures(), plain(make_gestures()), {.tolerance = 1e-5});
}

// A checkpoint resets these environments. The device must not act on older observations.
TEST_P(DeviceTest, ResetsOfACheckpointReachTheDevice) {
  expect_same(make_gestures(), plain(make_gestures()), {.tolerance = 1e-5, .saves = true});
}

// Parameters move when an agent goes to another device and back.
TEST_P(DeviceTest, ParametersThatMoveAreRecordedAnew) {
  const auto move = [](Agent& agent, int rollout) {
    if (rollout != 4) return;
    for (auto& [name, p] : agent.parameters()) p.set_data(p.clone());
  };
  const Collected c{.rollouts = 8, .tolerance = 1e-5, .between = move};
  expect_same(make_cart_pole(), plain(make_cart_pole()), c);
  EXPECT_EQ(fake_.captures, 2 * c.horizon * std::get<2>(GetParam()));
}

TEST_P(DeviceTest, MemoryGoesOn) {
  expect_same(make_cart_pole(), plain(make_cart_pole(), {.memory = MemoryKind::kLstm}),
              {.tolerance = 1e-5});
}

// Records the calls of before_rollout().
class Told : public ToyAgent {
 public:
  explicit Told(std::vector<bool>& told) : ToyAgent(3), told_(told) {}
  void before_rollout(bool greedy) override { told_.push_back(greedy); }

 private:
  std::vector<bool>& told_;
};

TEST_P(DeviceTest, AgentsAreToldOfEachRollout) {
  std::vector<bool> told;
  expect_same(make_zoo(), [&] { return std::make_unique<Told>(told); }, {.rollouts = 3});
  EXPECT_EQ(told, std::vector<bool>(3, false));  // not by the sampler on the CPU
}

// Exploration rates in host memory change from rollout to rollout.
TEST_P(DeviceTest, EpsilonsReachTheDevice) {
  const AgentFactory q = [] {
    const auto spec = make_cart_pole()({})->spec();
    return make_q_agent(spec, ModelOptions{}, {.epsilons = 6}, 3);
  };
  const auto explore = [](Agent& agent, int rollout) {
    dynamic_cast<QAgent&>(agent).epsilon().copy_(at::arange(6) * (0.1 * rollout / 3));
  };
  expect_same(make_cart_pole(), q, {.tolerance = 1e-5, .between = explore});
}

// Only the data that acting and learning need are uploaded, each once.
TEST_P(DeviceTest, EveryObservationCrossesOnce) {
  const Collected c{.rollouts = 1};
  const AgentFactory agent = plain(testing::make_counter());
  const auto bytes_of = [&](int rollouts) {
    auto some = c;
    some.rollouts = rollouts;
    some.tolerance = 1e-5;
    expect_same(testing::make_counter(), agent, some);
    return uploaded_;
  };
  constexpr std::int64_t kObservation = 2 * sizeof(float), kReward = sizeof(float);
  constexpr std::int64_t kFlags = 4;  // first, terminated, truncated, valid
  const auto of_a_rollout = c.horizon * c.envs * (kObservation + kReward + kFlags);
  EXPECT_EQ(bytes_of(4) - bytes_of(3), of_a_rollout);  // captured
  EXPECT_EQ(bytes_of(2) - bytes_of(1), of_a_rollout);
}

// Free-running workers: the ready ones form a batch, of one worker or several.
class OwnPaceTest : public DeviceTest {
 protected:
  void expect_same_at_own_pace(const EnvFactory& make_env, const AgentFactory& make_agent,
                               Collected c = {}) {
    for (const std::int64_t batch : {1, 4, 6}) {
      SCOPED_TRACE(fmt::format("batch {}", batch));
      c.batch = batch;
      expect_same(make_env, make_agent, c);
    }
  }
};

TEST_P(OwnPaceTest, DictionariesMasksStacksAndState) {
  const AgentFactory toy = [] { return std::make_unique<ToyAgent>(3); };
  expect_same_at_own_pace(make_zoo(), toy);
  expect_same_at_own_pace(make_zoo(), toy, {.horizon = 8, .host_rollouts = true});
  expect_same_at_own_pace(make_zoo(), toy, {.mid_batch_reset = false});
}

TEST_P(OwnPaceTest, NoiseOfChoices) {
  expect_same_at_own_pace(make_cart_pole(), plain(make_cart_pole()), {.tolerance = 1e-5});
  expect_same_at_own_pace(make_gestures(), plain(make_gestures()), {.tolerance = 1e-5});
}

TEST_P(OwnPaceTest, MemoryGoesOn) {
  expect_same_at_own_pace(make_cart_pole(), plain(make_cart_pole(), {.memory = MemoryKind::kLstm}),
                          {.tolerance = 1e-5});
}

TEST_P(OwnPaceTest, EveryObservationCrossesOnce) {
  const auto bytes_of = [&](std::int64_t batch) {
    expect_same(testing::make_counter(), plain(testing::make_counter()),
                {.batch = batch, .tolerance = 1e-5});
    return uploaded_;
  };
  const auto in_lock_step = bytes_of(0);
  for (const std::int64_t batch : {1, 6}) EXPECT_EQ(bytes_of(batch), in_lock_step);
}

INSTANTIATE_TEST_SUITE_P(Of, OwnPaceTest,
                         ::testing::Values(Workforce{SamplerKind::kParallelGpu, 1, 1},
                                           Workforce{SamplerKind::kParallelGpu, 3, 1}),
                         workforce_name);

INSTANTIATE_TEST_SUITE_P(Of, DeviceTest,
                         ::testing::Values(Workforce{SamplerKind::kSerial, 1, 1},
                                           Workforce{SamplerKind::kSerial, 1, 2},
                                           Workforce{SamplerKind::kParallelGpu, 2, 1},
                                           Workforce{SamplerKind::kParallelGpu, 2, 2}),
                         workforce_name);

}  // namespace
}  // namespace shoal::device_test
