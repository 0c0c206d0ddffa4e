#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/envs/wrapper.h"
#include "shoal/envs/wrappers.h"
#include "shoal/samplers/async_sampler.h"
#include "tests/support/fragile_env.h"
#include "tests/support/toy_agents.h"

// With the data that a sampler keeps of a failed environment, another one reproduces the failure.
namespace shoal {
namespace {

using namespace std::chrono_literals;
using testing::Breakage;
using testing::FragileOptions;
using testing::make_fragile;

constexpr std::int64_t kBroken = 5, kAt = 35;  // the environment, and its step

struct Way {
  const char* name;
  SamplerOptions options;
  bool asynchronous = false;
};

std::vector<Way> ways() {
  const SamplerOptions base{.horizon = 10, .envs = 8, .workers = 2, .seed = 3, .save_period = 0ms};
  const auto with = [&](SamplerKind kind, int groups = 1, std::int64_t batch = 0) {
    auto options = base;
    options.kind = kind, options.groups = groups, options.dynamic_batch = batch;
    return options;
  };
  auto waits = with(SamplerKind::kParallelGpu);
  waits.mid_batch_reset = false;
  auto decorrelated = with(SamplerKind::kParallelCpu);
  decorrelated.decorrelation = 15;
  decorrelated.save_period = 1h;
  auto preempted = with(SamplerKind::kParallelGpu, 1, 4);
  preempted.preempt_share = 0.5;
  auto second_half = with(SamplerKind::kSerial);
  second_half.first_env = 2;
  return {{"serial", with(SamplerKind::kSerial)},
          {"serial, not the first environments", second_half},
          {"parallel-cpu", with(SamplerKind::kParallelCpu, 2)},
          {"parallel-cpu, decorrelated", decorrelated},
          {"parallel-gpu", with(SamplerKind::kParallelGpu, 2)},
          {"parallel-gpu, resets wait", waits},
          {"parallel-gpu, dynamic", with(SamplerKind::kParallelGpu, 1, 4)},
          {"parallel-gpu, dynamic, cut short", preempted},
          {"serial, asynchronous", with(SamplerKind::kSerial), true},
          {"parallel-cpu, asynchronous", with(SamplerKind::kParallelCpu), true},
          {"parallel-gpu, asynchronous", with(SamplerKind::kParallelGpu), true},
          {"parallel-gpu, dynamic, asynchronous", with(SamplerKind::kParallelGpu, 1, 4), true}};
}

struct Outcome {
  std::vector<EnvFailure> failures;
  std::map<std::int64_t, at::Tensor> seen;  // valid observations of the broken one, by tick
  std::map<std::int64_t, float> rewards;    // its rewards of the step before, by tick
};

void note(const SamplerOptions& options, const Samples& s, Outcome& out) {
  const auto b = kBroken - options.first_env - s.first_env;
  if (b < 0 || b >= s.B) return;
  for (std::int64_t t = 0; t < s.T; ++t) {
    if (!s.valid[t][b].item<bool>()) continue;
    out.seen[s.first_tick + t] = s.observation[0][t][b].clone();
    out.rewards[s.first_tick + t + 1] = s.reward[t][b].item<float>();
  }
}

std::unique_ptr<Sampler> make(const Way& way, const EnvFactory& make_env, Agent& agent,
                              Agent& actor, const NamedTensors& saved = {},
                              const FailureHandler& on_failure = {}) {
  auto options = way.options;
  options.on_failure = on_failure;
  if (way.asynchronous) return make_async_sampler(make_env, agent, actor, options, {}, saved);
  return make_sampler(make_env, agent, options, saved);
}

// Collects until a failure; it is an error if there is none.
Outcome run(const Way& way, const EnvFactory& make_env, const NamedTensors& saved = {}) {
  testing::ToyAgent agent(2), actor(2);
  Outcome out;
  try {
    const auto sampler = make(way, make_env, agent, actor, saved,
                              [&](const EnvFailure& failure) { out.failures.push_back(failure); });
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < 20s)
      note(way.options, sampler->collect().samples, out);
    ADD_FAILURE() << "nothing failed";
  } catch (const std::exception& e) {
    EXPECT_EQ(out.failures.size(), 1U) << e.what();
    for (const auto& failure : out.failures) EXPECT_EQ(failure.error, e.what());
  }
  return out;
}

// Takes the kept steps, and compares them with everything that the run returned.
void expect_same_way(FailureReplay& replay, const EnvFailure& failure, const Outcome& out,
                     const Way& way) {
  EXPECT_EQ(failure.env, kBroken);
  replay.begin();
  std::int64_t compared = 0;
  auto tick = failure.begin;
  const auto expect_seen = [&] {
    const auto found = out.seen.find(tick);
    if (found == out.seen.end()) return;
    EXPECT_TRUE(replay.observation()[0].equal(found->second)) << "at tick " << tick;
    ++compared;
  };
  if (failure.seed) expect_seen();
  // If the environment waited, ticks were skipped.
  const bool waits = failure.step - failure.begin != replay.steps_before();
  for (std::int64_t i = 0; i < replay.steps_before(); ++i) {
    replay.step();
    ++tick;
    if (!waits) expect_seen();
  }
  EXPECT_GT(replay.steps_before(), 0);
  // Asynchronous samplers may fail before the caller has read a rollout.
  const bool seen = !waits && !way.asynchronous && failure.step - failure.begin > 10;
  EXPECT_TRUE(!seen || compared > 0);
  EXPECT_EQ(replay.same_observation(), failure.in_step ? std::optional(true) : std::nullopt);
}

TEST(RewindTest, AStepThatThrowsThrowsAgain) {
  for (const auto& way : ways()) {
    for (const bool saves : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, {}", way.name, saves ? "saves" : "does not save"));
      // kAt includes the random first steps.
      const auto make_env = make_fragile({.how = Breakage::kThrow, .at = kAt, .saves = saves});
      const auto out = run(way, make_env);
      ASSERT_EQ(out.failures.size(), 1U);
      const auto& failure = out.failures[0];
      EXPECT_TRUE(failure.in_step);
      EXPECT_EQ(failure.seed.has_value(), !saves || way.options.decorrelation > 0);
      FailureReplay replay(make_env, failure);
      expect_same_way(replay, failure, out, way);
      const bool skips = !way.options.mid_batch_reset || way.options.preempt_share < 1;
      EXPECT_TRUE(skips || replay.steps_before() == failure.step - failure.begin);
      try {
        replay.fail();
        ADD_FAILURE() << "it does not throw";
      } catch (const std::exception& e) {
        EXPECT_STREQ(e.what(), "the wheel came off");
        EXPECT_NE(failure.error.find(e.what()), std::string::npos) << failure.error;
      }
    }
  }
}

TEST(RewindTest, AResetThatThrowsThrowsAgain) {
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name);
    const auto make_env = make_fragile({.how = Breakage::kThrowInReset, .at = kAt});
    const auto out = run(way, make_env);
    ASSERT_EQ(out.failures.size(), 1U);
    EXPECT_EQ(out.failures[0].in_step, way.options.mid_batch_reset);
    FailureReplay replay(make_env, out.failures[0]);
    expect_same_way(replay, out.failures[0], out, way);
    EXPECT_THROW(replay.fail(), std::runtime_error);
  }
}

TEST(RewindTest, DeathsAreKeptAsExceptionsAre) {
  for (auto way : ways()) {
    if (way.options.kind == SamplerKind::kSerial) continue;  // this process would die
    for (const auto how : {Breakage::kSegfault, Breakage::kExit, Breakage::kHang}) {
      SCOPED_TRACE(fmt::format("{}, {}", way.name, static_cast<int>(how)));
      way.options.step_limit = how == Breakage::kHang ? 500ms : 60s;
      const auto out = run(way, make_fragile({.how = how, .at = kAt}));
      ASSERT_EQ(out.failures.size(), 1U);
      FailureReplay replay(make_fragile({.how = Breakage::kThrow, .at = kAt}), out.failures[0]);
      expect_same_way(replay, out.failures[0], out, way);
      EXPECT_THROW(replay.fail(), std::runtime_error);
    }
  }
}

TEST(RewindTest, ARunThatGoesOnFromACheckpointIsRepeatedFromIt) {
  for (auto way : ways()) {
    if (way.asynchronous || way.options.decorrelation > 0) continue;
    for (const bool saves : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, {}", way.name, saves ? "saves" : "does not save"));
      way.options.save_period = 1h;
      const auto make_env = make_fragile({.how = Breakage::kThrow, .at = kAt, .saves = saves});
      testing::ToyAgent agent(2), actor(2);
      const auto before = make(way, make_env, agent, actor);
      before->collect();
      before->collect();
      const auto saved = before->save(/*reset_others=*/false);
      const auto out = run(way, make_env, saved);
      ASSERT_EQ(out.failures.size(), 1U);
      EXPECT_EQ(out.failures[0].begin, 20);
      EXPECT_EQ(out.failures[0].seed.has_value(), !saves);
      FailureReplay replay(make_env, out.failures[0]);
      expect_same_way(replay, out.failures[0], out, way);
      EXPECT_THROW(replay.fail(), std::runtime_error);
    }
  }
}

TEST(RewindTest, AResetAtACheckpointIsANewBeginning) {
  for (auto way : ways()) {
    if (way.asynchronous || way.options.decorrelation > 0) continue;
    SCOPED_TRACE(way.name);
    const auto make_env = make_fragile({.how = Breakage::kThrow, .at = kAt, .saves = false});
    testing::ToyAgent agent(2), actor(2);
    Outcome out;
    const auto sampler = make(way, make_env, agent, actor, {},
                              [&](const EnvFailure& failure) { out.failures.push_back(failure); });
    sampler->collect();
    sampler->save(/*reset_others=*/true);
    EXPECT_THROW(
        {
          for (int i = 0; i < 20; ++i) note(way.options, sampler->collect().samples, out);
        },
        std::runtime_error);
    ASSERT_EQ(out.failures.size(), 1U);
    EXPECT_EQ(out.failures[0].begin, 10);
    FailureReplay replay(make_env, out.failures[0]);
    expect_same_way(replay, out.failures[0], out, way);
    EXPECT_THROW(replay.fail(), std::runtime_error);
  }
}

// Rewards are divided by a statistic of the run, from its beginning or from a checkpoint on.
TEST(RewindTest, StatisticsOfRewardsAreKept) {
  const Way way{"", {.kind = SamplerKind::kParallelGpu, .horizon = 10, .envs = 8, .workers = 2}};
  for (const bool saves : {true, false}) {
    const auto make_env =
        with_normalized_reward(make_fragile({.how = Breakage::kThrow, .at = kAt, .saves = saves}));
    testing::ToyAgent agent(2);
    const auto before = make_sampler(make_env, agent, way.options);
    before->collect();
    const auto out = run(way, make_env, before->save(/*reset_others=*/false));
    ASSERT_EQ(out.failures.size(), 1U);
    const auto& failure = out.failures[0];
    EXPECT_EQ(failure.begin, 10);
    std::vector<float> rewards;
    class Watched : public Wrapper {
     public:
      Watched(std::unique_ptr<Env> env, std::vector<float>& rewards)
          : Wrapper(std::move(env)), rewards_(rewards) {}
      StepResult step(ArraysIn action, StepOut out) override {
        const auto result = Wrapper::step(action, out);
        rewards_.push_back(result.reward);
        return result;
      }

     private:
      std::vector<float>& rewards_;
    };
    FailureReplay replay(
        [&](const EnvContext& c) { return std::make_unique<Watched>(make_env(c), rewards); },
        failure);
    replay.begin();
    for (std::int64_t i = 0; i < replay.steps_before(); ++i) {
      replay.step();
      const auto found = out.rewards.find(failure.begin + i + 1);
      EXPECT_TRUE(found == out.rewards.end() || rewards.back() == found->second) << i;
    }
    EXPECT_GT(rewards.size(), 20U);
  }
}

// The ring of actions wraps many times.
TEST(RewindTest, ALongRunIsRepeatedFromItsLastStates) {
  Way way{"", {.kind = SamplerKind::kParallelGpu, .horizon = 10, .envs = 8, .workers = 2}};
  way.options.action_log_bytes = 9 * 8 * 37;  // 37 steps
  way.options.save_period = 0ms;
  const FragileOptions late{.how = Breakage::kThrow, .at = 1234};
  const auto out = run(way, make_fragile(late));
  ASSERT_EQ(out.failures.size(), 1U);
  const auto& failure = out.failures[0];
  EXPECT_EQ(failure.begin, 1220) << "of the states of two rollouts, the older ones";
  FailureReplay replay(make_fragile(late), failure);
  replay.begin();
  for (std::int64_t i = 0; i < replay.steps_before(); ++i) replay.step();
  EXPECT_EQ(replay.same_observation(), std::optional(true));
  EXPECT_THROW(replay.fail(), std::runtime_error);
}

TEST(RewindTest, ABeginningThatIsLostIsSaid) {
  Way way{"", {.kind = SamplerKind::kParallelGpu, .horizon = 10, .envs = 8, .workers = 2}};
  way.options.action_log_bytes = 9 * 8 * 37;
  const auto make_env = make_fragile({.how = Breakage::kThrow, .at = 100, .saves = false});
  const auto out = run(way, make_env);
  ASSERT_EQ(out.failures.size(), 1U);
  EXPECT_FALSE(out.failures[0].repeatable());
  EXPECT_THROW(FailureReplay(make_env, out.failures[0]), Error);
}

TEST(RewindTest, EveryDeathOfARunThatGoesOnIsKept) {
  for (auto way : ways()) {
    if (way.options.kind == SamplerKind::kSerial || way.options.decorrelation > 0) continue;
    SCOPED_TRACE(way.name);
    way.options.on_death = OnDeath::kRestart;
    // Every restarted environment fails after as many steps. States of its predecessor must not be
    // used.
    constexpr std::int64_t kLife = 5;
    const auto make_env = make_fragile({.how = Breakage::kSegfault, .at = kLife});
    testing::ToyAgent agent(2), actor(2);
    std::vector<EnvFailure> failures;
    const auto sampler = make(way, make_env, agent, actor, {},
                              [&](const EnvFailure& failure) { failures.push_back(failure); });
    const auto begin = std::chrono::steady_clock::now();
    while (failures.size() < 3 && std::chrono::steady_clock::now() - begin < 30s)
      sampler->collect();
    ASSERT_EQ(failures.size(), 3U);
    for (const auto& failure : failures) {
      FailureReplay replay(make_fragile({.how = Breakage::kThrow, .at = kLife}), failure);
      replay.begin();
      for (std::int64_t i = 0; i < replay.steps_before(); ++i) replay.step();
      // A rollout that was cut short may end, and states be saved, right before the last step; a
      // state holds no observation.
      const bool observed = failure.seed || replay.steps_before() > 0;
      EXPECT_EQ(replay.same_observation(), observed ? std::optional(true) : std::nullopt);
      EXPECT_THROW(replay.fail(), std::runtime_error);
    }
  }
}

TEST(RewindTest, FailuresBeforeTheFirstRolloutAreKept) {
  for (const auto& way : ways()) {
    for (const auto how :
         {Breakage::kThrowInConstructor, Breakage::kThrowInFirstReset, Breakage::kThrow}) {
      const bool random_steps = how == Breakage::kThrow;
      if (random_steps && way.options.decorrelation == 0) continue;
      SCOPED_TRACE(fmt::format("{}, {}", way.name, static_cast<int>(how)));
      const auto make_env = make_fragile({.how = how, .at = 7});
      const auto out = run(way, make_env);
      ASSERT_EQ(out.failures.size(), 1U);
      const auto& failure = out.failures[0];
      EXPECT_EQ(failure.env, kBroken);
      EXPECT_TRUE(failure.at_beginning());
      EXPECT_EQ(failure.steps(), 0);
      EXPECT_TRUE(failure.repeatable());
      EXPECT_EQ(failure.phase, random_steps                          ? WorkerStatus::kStepping
                               : how == Breakage::kThrowInFirstReset ? WorkerStatus::kResetting
                                                                     : WorkerStatus::kConstructing);
      EXPECT_THROW(FailureReplay(make_env, failure).begin(), std::runtime_error);
    }
  }
}

TEST(RewindTest, AHandlerThatThrowsChangesNothing) {
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name);
    testing::ToyAgent agent(2), actor(2);
    try {
      const auto sampler =
          make(way, make_fragile({.how = Breakage::kThrow, .at = kAt}), agent, actor, {},
               [](const EnvFailure&) { throw std::runtime_error("the disk is full"); });
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begin < 20s) sampler->collect();
      ADD_FAILURE() << "nothing failed";
    } catch (const std::exception& e) {
      EXPECT_NE(std::string(e.what()).find("the wheel came off"), std::string::npos) << e.what();
    }
  }
}

TEST(RewindTest, AnExceptionOfSaveEndsTheKeepingOfStatesOnly) {
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name);
    testing::ToyAgent agent(2), actor(2);
    std::vector<EnvFailure> failures;
    const auto sampler = make(way, make_fragile({.how = Breakage::kThrowInSave}), agent, actor, {},
                              [&](const EnvFailure& failure) { failures.push_back(failure); });
    for (int i = 0; i < 4; ++i) sampler->collect();
    EXPECT_TRUE(failures.empty());
    if (way.asynchronous) continue;  // environments are not saved
    EXPECT_ANY_THROW(sampler->save(/*reset_others=*/false));
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0].phase, WorkerStatus::kSaving);
    EXPECT_FALSE(failures[0].at_beginning());
  }
}

TEST(RewindTest, NothingIsSavedIfNobodyAsksForFailures) {
  const auto way = ways().front();
  ASSERT_EQ(way.options.kind, SamplerKind::kSerial);
  testing::ToyAgent agent(2), actor(2);
  const auto sampler = make(way, make_fragile({.how = Breakage::kThrowInSave}), agent, actor);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) sampler->collect();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(RewindTest, StatesThatAreTooLargeAreNotKept) {
  for (auto way : ways()) {
    SCOPED_TRACE(way.name);
    way.options.state_log_bytes = 100;
    const auto out = run(way, make_fragile({.how = Breakage::kThrow, .at = kAt}));
    ASSERT_EQ(out.failures.size(), 1U);
    EXPECT_TRUE(out.failures[0].state.empty());
    EXPECT_TRUE(out.failures[0].seed.has_value());
  }
}

// Environment 5 stays in its 25th step until it is released.
class Held : public Wrapper {
 public:
  using Wrapper::Wrapper;
  StepResult step(ArraysIn action, StepOut out) override {
    if (++steps_ == 25) {
      entered = true;
      while (!released) std::this_thread::sleep_for(1ms);
    }
    return Wrapper::step(action, out);
  }
  inline static std::atomic<bool> entered{false}, released{false};

 private:
  std::int64_t steps_ = 0;
};

std::unique_ptr<Env> make_held(const EnvContext& context) {
  auto env = make_fragile({.how = Breakage::kNone})(context);
  if (context.index != kBroken) return env;
  return std::make_unique<Held>(std::move(env));
}

// Fails in value(), while the environment is held.
class BrokenLearner : public testing::ToyAgent {
 public:
  explicit BrokenLearner(std::function<void()> breaks) : ToyAgent(2), breaks_(std::move(breaks)) {}
  void value(const ActIn&, at::Tensor&) override {
    while (!Held::entered) std::this_thread::sleep_for(1ms);
    breaks_();
  }

 private:
  std::function<void()> breaks_;
};

void collect_with(const std::function<void()>& breaks, const FailureHandler& on_failure) {
  Held::entered = Held::released = false;
  BrokenLearner agent(breaks);
  testing::ToyAgent actor(2);
  const Way way{"", {.kind = SamplerKind::kSerial, .horizon = 10, .envs = 8}, true};
  const auto sampler = make(way, make_held, agent, actor, {}, on_failure);
  try {
    sampler->collect();
  } catch (const std::exception&) {
    Held::released = true;
    throw;
  }
}

TEST(RewindTest, AnErrorOfTheLearnerIsNoneOfTheEnvironmentBesideIt) {
  int failures = 0;
  EXPECT_THROW(collect_with([] { throw std::runtime_error("it does not converge"); },
                            [&](const EnvFailure&) { ++failures; }),
               std::runtime_error);
  EXPECT_EQ(failures, 0);
}

// AddressSanitizer answers a SIGSEGV with a report and exit status 1.
bool ends_by_segfault(int status) {
#if defined(__SANITIZE_ADDRESS__)
  if (::testing::ExitedWithCode(1)(status)) return true;
#endif
  return ::testing::KilledBySignal(SIGSEGV)(status);
}

TEST(RewindTest, TheEndOfTheProcessByTheLearnerIsNoneOfTheEnvironmentBesideIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the hooks belong to one process
  const auto is_silent = ::testing::Not(::testing::HasSubstr("is kept"));
  const auto say = [](const EnvFailure&) { std::fputs("it is kept\n", stderr); };
  EXPECT_EXIT(collect_with([] { std::raise(SIGSEGV); }, say), ends_by_segfault, is_silent);
  EXPECT_EXIT(collect_with([] { std::exit(3); }, say), ::testing::ExitedWithCode(3), is_silent);
  const auto collect_broken = [&] {
    testing::ToyAgent agent(2), actor(2);
    const Way way{"", {.kind = SamplerKind::kSerial, .horizon = 10, .envs = 8}, true};
    const auto sampler =
        make(way, make_fragile({.how = Breakage::kSegfault, .at = kAt}), agent, actor, {}, say);
    for (;;) sampler->collect();
  };
  EXPECT_EXIT(collect_broken(), ends_by_segfault, ::testing::HasSubstr("is kept"));
}

// Saving states must not change a run.
TEST(RewindTest, SavingStatesChangesNothing) {
  for (auto way : ways()) {
    if (way.asynchronous || way.options.preempt_share < 1) continue;  // depends on timing
    SCOPED_TRACE(way.name);
    std::vector<at::Tensor> all;
    for (const auto period : {std::chrono::milliseconds(0), std::chrono::milliseconds(1h)}) {
      way.options.save_period = period;
      testing::ToyAgent agent(2);
      const auto sampler = make_sampler(make_fragile({.how = Breakage::kNone}), agent, way.options);
      for (int i = 0; i < 4; ++i) sampler->collect();
      all.push_back(sampler->collect().samples.observation[0].clone());
    }
    EXPECT_TRUE(all[0].equal(all[1]));
  }
}

}  // namespace
}  // namespace shoal
