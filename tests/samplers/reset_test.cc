#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// Beginnings of episodes: after random steps, in the same step, or with the next rollout.
namespace shoal {
namespace {

using namespace std::chrono_literals;
using testing::Counter;
using testing::make_counter;
using testing::make_zoo;
using testing::ToyAgent;

SamplerOptions waiting(std::int64_t horizon, std::int64_t envs) {
  auto o = serial(horizon, envs);
  o.mid_batch_reset = false;
  return o;
}

std::vector<float> column(const at::Tensor& t) {
  const auto values = t.to(at::kFloat).contiguous();
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()};
}

TEST(WaitTest, ARolloutEndsWithItsEpisode) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 3}), agent, waiting(5, 2));
  for (int rollout = 0; rollout < 3; ++rollout) {
    const auto& s = sampler->collect().samples;
    const auto number = static_cast<float>(rollout);
    EXPECT_EQ(column(s.valid.select(1, 1)), (std::vector<float>{1, 1, 1, 0, 0}));
    EXPECT_EQ(s.steps, 6);
    EXPECT_EQ(column(s.terminated.select(1, 1)), (std::vector<float>{0, 0, 1, 0, 0}));
    EXPECT_EQ(column(s.is_first.select(1, 1)), (std::vector<float>{1, 0, 0, 0, 0, 0}));
    EXPECT_EQ(column(s.observation[0].select(1, 1).select(1, 0)),
              (std::vector<float>{1000, 1001, 1002, 0, 0, 0}));
    EXPECT_EQ(column(s.observation[0].select(1, 1).select(1, 1)),
              (std::vector<float>{number, number, number, 0, 0, 0}));
    EXPECT_EQ(column(s.bootstrap_value), (std::vector<float>{0, 0}));
    EXPECT_EQ(s.final_obs.t, (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(s.final_obs.observation[0].dense()[1][0].item<float>(), 1003);
  }
}

TEST(WaitTest, AnEpisodeThatEndsWithTheRolloutMissesNoStep) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 4}), agent, waiting(4, 1));
  for (int rollout = 0; rollout < 3; ++rollout) {
    const auto& s = sampler->collect().samples;
    EXPECT_EQ(s.steps, 4);
    EXPECT_EQ(column(s.observation[0].select(1, 0).select(1, 0)),
              (std::vector<float>{0, 1, 2, 3, 0}));
    EXPECT_EQ(column(s.bootstrap_value), (std::vector<float>{0}));
  }
}

TEST(WaitTest, ALostLifeWaitsAndTheGameGoesOn) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 5, .life = 2}), agent, waiting(3, 1));
  std::vector<float> seen;
  std::size_t episodes = 0;
  for (int rollout = 0; rollout < 3; ++rollout) {
    const auto batch = sampler->collect();
    for (const auto x : column(batch.samples.observation[0].select(1, 0).select(1, 0)))
      seen.push_back(x);
    episodes += batch.episodes.size();
  }
  EXPECT_EQ(seen, (std::vector<float>{0, 1, 0, 0, /**/ 2, 3, 0, 0, /**/ 4, 0, 0, 0}));
  EXPECT_EQ(episodes, 1U);
}

// Holds for all fields, including stacks of frames, and actions, which the agent chooses for these
// rows, too.
TEST(WaitTest, InvalidStepsHoldZerosAndAllActionsAreLegal) {
  ToyAgent agent(3);
  auto sampler = make_sampler(make_zoo(), agent, waiting(12, 6));
  for (int rollout = 0; rollout < 3; ++rollout) {
    const auto& s = sampler->collect().samples;
    const auto waits = s.valid.logical_not();
    ASSERT_GT(waits.sum().item<std::int64_t>(), 0);
    auto expect_zeros = [&](const at::Tensor& t, const std::string& what) {
      EXPECT_EQ(
          t.narrow(0, 0, 12).flatten(0, 1).index({waits.flatten()}).count_nonzero().item<int>(), 0)
          << what;
    };
    for (const auto* fields : {&s.observation, &s.action, &s.agent_info, &s.env_info})
      for (const auto& [name, t] : *fields) expect_zeros(t, name);
    for (const auto& [name, o] : s.observed)
      expect_zeros(o.dense().unflatten(0, {13, 6}), "complete " + name);
    for (const auto* t : {&s.reward, &s.terminated, &s.truncated, &s.final_value})
      expect_zeros(*t, "scalars");
    EXPECT_TRUE(s.mask[0].narrow(0, 0, 12).index({waits}).all().item<bool>());
  }
}

// Counts the resets of all environments in shared memory, except the first ones.
class Counted : public Counter {
 public:
  Counted(const EnvContext& c, std::atomic<int>& resets, bool fails)
      : Counter(c, {.length = 3}), resets_(resets), fails_(fails) {}
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (!seed && fails_) throw std::runtime_error("no way back");
    Counter::reset(seed, out);
    if (!seed) ++resets_;
  }

 private:
  std::atomic<int>& resets_;
  bool fails_;
};

class Resets : public ::testing::Test {
 protected:
  ToyAgent agent_{2};
  Arena::Plan plan_;
  Arena::Field memory_ = plan_.add_bytes(sizeof(std::atomic<int>));
  Arena arena_{plan_};
  std::atomic<int>& resets_ = *new (arena_.data(memory_)) std::atomic<int>(0);
};

class CountedResets : public Resets, public ::testing::WithParamInterface<SamplerKind> {
 protected:
  std::unique_ptr<Sampler> make(bool fails) {
    auto o = waiting(5, 4);
    o.kind = GetParam();
    o.workers = 2;
    return make_sampler(
        [this, fails](const EnvContext& c) {
          return std::make_unique<Counted>(c, resets_, fails && c.index == 3);
        },
        agent_, o);
  }
};

// collect() is not called again.
TEST_P(CountedResets, HappenWhileTheCallerLearns) {
  const auto sampler = make(/*fails=*/false);
  const auto batch = sampler->collect();
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (resets_ < 4 && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_EQ(resets_, 4);
  for (std::int64_t b = 0; b < 4; ++b) {  // resets do not change the rollout that is learned from
    const auto first = 1000.0F * static_cast<float>(b);
    EXPECT_EQ(column(batch.samples.observation[0].select(1, b).select(1, 0)),
              (std::vector<float>{first, first + 1, first + 2, 0, 0, 0}));
  }
}

TEST_P(CountedResets, AFailureIsToldByTheNextRollout) {
  const auto sampler = make(/*fails=*/true);
  sampler->collect();
  try {
    sampler->collect();
    ADD_FAILURE() << "the failure went unnoticed";
  } catch (const WorkerError& e) {
    EXPECT_EQ(e.env, 3);
    EXPECT_NE(std::string(e.what()).find("no way back"), std::string::npos) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Samplers, CountedResets,
                         ::testing::Values(SamplerKind::kParallelCpu, SamplerKind::kParallelGpu),
                         [](const auto& test) {
                           return test.param == SamplerKind::kParallelCpu ? "Cpu" : "Gpu";
                         });

TEST_F(Resets, SeriallyWaitForTheNextRollout) {
  const auto o = waiting(5, 4);
  const auto make = [this](bool fails) {
    return
        [this, fails](const EnvContext& c) { return std::make_unique<Counted>(c, resets_, fails); };
  };
  const auto sampler = make_sampler(make(false), agent_, o);
  sampler->collect();
  EXPECT_EQ(resets_, 0);
  sampler->collect();
  EXPECT_EQ(resets_, 4);
  const auto failing = make_sampler(make(true), agent_, o);
  EXPECT_NO_THROW(failing->collect());
  EXPECT_THROW(failing->collect(), std::runtime_error);
}

TEST(WaitTest, ATruncatedEpisodeHasTheValueOfItsEnd) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 3, .truncates = true}), agent, waiting(5, 2));
  const auto& s = sampler->collect().samples;
  // The sum of the episode's observations, including the final one.
  EXPECT_EQ(s.final_value[2][1].item<float>(), 1000 + 1001 + 1002 + 1003);
  EXPECT_EQ(s.final_value.count_nonzero().item<int>(), 2);
}

// The zoo with a life lost in every step.
class Wild : public testing::Zoo {
 public:
  StepResult step(ArraysIn action, StepOut out) override {
    auto result = Zoo::step(action, out);
    if (!result.truncated && !result.terminated) result.terminated = result.life_lost = true;
    return result;
  }
};

TEST(WaitTest, ALifeGoesOnWithTheObservationThatFollowedTheLastOne) {
  ToyAgent agent(3), other(3);
  const EnvFactory make = [](const EnvContext&) { return std::make_unique<Wild>(); };
  // In rollouts of one step no environment waits: observations are as if there were no lives.
  auto waits = make_sampler(make, agent, waiting(1, 3));
  auto goes_on = make_sampler(make_zoo(), other, waiting(1, 3));
  for (int rollout = 0; rollout < 20; ++rollout) {
    const auto &a = waits->collect().samples, &b = goes_on->collect().samples;
    expect_equal(a.action, b.action, "action");
    expect_equal(a.mask[0][0], b.mask[0][0], "mask");
    for (const auto& [name, t] : a.observation) expect_equal(t[0], b.observation.at(name)[0], name);
    EXPECT_TRUE(a.is_first[0].all().item<bool>());
  }
}

TEST(DecorrelationTest, EnvironmentsBeginAfterRandomSteps) {
  ToyAgent agent(2);
  auto o = serial(3, 64);
  o.decorrelation = 9;
  auto sampler = make_sampler(make_counter({.length = 100}), agent, o);
  const auto batch = sampler->collect();
  const auto begun = batch.samples.observation[0][0].select(1, 0) - 1000 * at::arange(64);
  EXPECT_EQ(begun.min().item<float>(), 0);
  EXPECT_EQ(begun.max().item<float>(), 9);
  EXPECT_TRUE(batch.samples.is_first[0].all().item<bool>());
  EXPECT_EQ(batch.samples.first_tick, 0);
}

// The zoo rejects illegal actions. Episodes that end are counted with their random first steps.
TEST(DecorrelationTest, ActionsAreLegalAndEpisodesCountFromTheirBeginning) {
  ToyAgent agent(3);
  auto o = serial(16, 32);
  o.decorrelation = 40;
  auto sampler = make_sampler(make_zoo(), agent, o);
  const auto batch = sampler->collect();
  std::int64_t longer = 0;
  for (const auto& e : batch.episodes) {
    EXPECT_LE(e.length, 9);
    if (e.number > 0) continue;
    for (std::int64_t t = 0; t < 16; ++t) {
      if (!batch.samples.is_first[t + 1][e.env].item<bool>()) continue;
      EXPECT_GE(e.length, t + 1);
      longer += e.length > t + 1 ? 1 : 0;
      break;
    }
  }
  EXPECT_GT(longer, 0);
}

}  // namespace
}  // namespace shoal
