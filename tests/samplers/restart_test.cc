#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/data/saved.h"
#include "shoal/envs/wrappers.h"
#include "src/core/cpu_features.h"
#include "tests/samplers/deaths.h"
#include "tests/support/message_of.h"
#include "tests/support/shared.h"
#include "tests/support/toy_agents.h"

namespace shoal {
namespace {

using testing::Mishap;
using SamplerRestartTest = LeavesNothing;

constexpr Mishap kWays[] = {Mishap::kThrow, Mishap::kExit, Mishap::kKill, Mishap::kHang};

// One environment fails in each of these ways in turn, after 12, 13, 14 and 15 steps, and then no
// more. The number of failures is in shared memory. Episodes have 7 steps.
class Fate {
 public:
  EnvFactory factory(std::int64_t env = 5) const {
    return [met = &*met_, env](const EnvContext& c) -> std::unique_ptr<Env> {
      const testing::CounterOptions options{.length = 7};
      const auto mishap = met->load();
      if (c.index != env || mishap >= std::ssize(kWays))
        return std::make_unique<testing::Counter>(c, options);
      ++*met;
      return std::make_unique<testing::Unlucky>(c, kWays[mishap], env, 12 + mishap, options);
    };
  }

 private:
  testing::Shared<std::atomic<int>> met_;
};

void expect_all_ways(const std::string& said) {
  for (const std::string word :
       {"the wheel came off", "exit(3)", "SIGKILL", "for more than 1.0 s", "it is restarted"})
    EXPECT_NE(said.find(word), std::string::npos) << word << " not in: " << said;
}

// Worker 1 of 2 dies four times, in four ways. Rollouts before and after are complete, none comes
// twice, and only those under way are lost. Worker 0 is not affected. The same for the sampler of a
// rank that is not the first.
TEST_F(SamplerRestartTest, WorkersThatActWhileTheCallerLearnsAreStartedAnew) {
  constexpr std::int64_t kT = 10;
  for (const std::int64_t first_env : {0, 8}) {
    SCOPED_TRACE(first_env);
    const Fate fate;
    testing::ToyAgent agent(2), actor(2);
    ::testing::internal::CaptureStderr();
    const auto sampler = make_async_sampler(fate.factory(first_env + 5), agent, actor,
                                            {.kind = SamplerKind::kParallelCpu,
                                             .horizon = kT,
                                             .envs = 8,
                                             .first_env = first_env,
                                             .workers = 2,
                                             .step_limit = 1s,
                                             .on_death = OnDeath::kRestart});
    std::int64_t due[2] = {0, 0}, lost = 0, after = 0;
    const auto deadline = Clock::now() + 30s;
    while (after < 5 && Clock::now() < deadline) {
      const auto batch = sampler->collect();
      const auto& s = batch.samples;
      const auto writer = s.first_env / 4;
      if (s.first_tick != due[writer]) {
        EXPECT_EQ(writer, 1);
        EXPECT_GT(s.first_tick, due[writer]);
        EXPECT_EQ(s.first_tick % kT, 0);
        EXPECT_TRUE(s.is_first[0].all().item<bool>()) << "new episodes begin";
        lost += (s.first_tick - due[writer]) / kT;
      }
      due[writer] = s.first_tick + kT;
      after += writer == 1 && sampler->restarts() == std::ssize(kWays);
    }
    EXPECT_EQ(sampler->restarts(), std::ssize(kWays));
    EXPECT_EQ(lost, std::ssize(kWays));
    EXPECT_EQ(sampler->counts().reclaimed, std::ssize(kWays));
    EXPECT_GT(due[0], 0);
    expect_all_ways(::testing::internal::GetCapturedStderr());
  }
}

// The number of valid steps of an environment whose worker died in this rollout. They come first,
// and the step after them is truncated.
std::int64_t steps_before_death(const Samples& s, std::int64_t b) {
  const auto valid = s.valid.select(1, b), truncated = s.truncated.select(1, b);
  const auto steps = valid.sum().item<std::int64_t>();
  EXPECT_FALSE(valid.narrow(0, steps, s.T - steps).any().item<bool>());
  for (auto t = steps; t < s.T; ++t) {
    EXPECT_EQ(truncated[t].item<bool>(), t == steps) << t;
    EXPECT_EQ(s.reward[t][b].item<float>(), 0);
    EXPECT_FALSE(s.terminated[t][b].item<bool>());
    EXPECT_EQ(s.observation[0][t][b].any().item<bool>() && t > steps, false);
  }
  // It is truncated with the last observation, whose stack learning sees, too.
  const auto stacked = s.observed[0].dense().view({s.T + 1, s.B, -1});
  EXPECT_TRUE(stacked[steps][b].any().item<bool>());
  EXPECT_EQ(s.observation[0][steps][b][0].item<float>() >= 1000.0F * static_cast<float>(b), true);
  EXPECT_EQ(s.final_value.select(1, b)[steps].item<float>(), 0);
  EXPECT_EQ(s.bootstrap_value[b].item<float>(), 0);
  return steps;
}

// The environments of worker 0 continue as without any death, and those of worker 1 begin new
// episodes with the rollout after each death.
TEST_F(SamplerRestartTest, WorkersThatStepAreStartedAnew) {
  constexpr std::int64_t kT = 10;
  for (const auto& pace :
       {Pace{"lock-step", SamplerKind::kParallelGpu, 1, 0, false},
        {"halves", SamplerKind::kParallelGpu, 2, 0, false},
        {"own pace", SamplerKind::kParallelGpu, 1, 1, false},
        {"acting themselves", SamplerKind::kParallelCpu, 1, 0, false},
        {"halves, acting themselves", SamplerKind::kParallelCpu, 2, 0, false},
        {"while the caller learns", SamplerKind::kParallelGpu, 1, 0, true},
        {"halves, while the caller learns", SamplerKind::kParallelGpu, 2, 0, true},
        {"own pace, while the caller learns", SamplerKind::kParallelGpu, 1, 1, true}}) {
    SCOPED_TRACE(pace.name);
    const Fate fate;
    testing::ToyAgent agent(2), actor(2), other(2);
    const auto plain = make_sampler(with_stack(testing::make_counter({.length = 7}), 2), other,
                                    {.kind = SamplerKind::kSerial, .horizon = kT, .envs = 8});
    const auto make_env = with_stack(fate.factory(), 2);
    auto o = pace.options(kT, 8);
    o.step_limit = 1s;
    o.on_death = OnDeath::kRestart;
    ::testing::internal::CaptureStderr();
    std::int64_t deaths = 0;
    {
      const auto sampler = make_either(pace.asynchronous, make_env, agent, actor, o);
      const auto lives_on = [groups = pace.groups](std::int64_t b) {  // b belongs to worker 0
        return groups == 1 ? b < 4 : b % 4 >= 2;
      };
      bool anew = false;
      for (int rollout = 0; rollout < 20; ++rollout) {
        const auto& s = sampler->collect().samples;
        const auto& want = plain->collect().samples;
        ASSERT_EQ(s.first_tick, rollout * kT);
        ASSERT_EQ(s.steps, s.valid.sum().item<std::int64_t>());
        const bool died = !s.valid.all().item<bool>();
        for (std::int64_t b = 0; b < 8; ++b) {
          if (lives_on(b)) {
            for (const auto get : {&Samples::reward, &Samples::terminated, &Samples::valid,
                                   &Samples::is_first, &Samples::final_value})
              ASSERT_TRUE(at::equal((s.*get).select(1, b), (want.*get).select(1, b)));
            ASSERT_TRUE(at::equal(s.observation[0].select(1, b), want.observation[0].select(1, b)));
          } else {
            EXPECT_TRUE(!anew || s.is_first[0][b].item<bool>());
            if (!died) continue;
            const auto steps = steps_before_death(s, b);
            // With parallel-cpu the rollout of that worker is lost as a whole.
            EXPECT_LE(steps, pace.kind == SamplerKind::kParallelCpu ? 0 : kT - 1);
          }
        }
        anew = died;
        deaths += died;
      }
    }
    expect_all_ways(::testing::internal::GetCapturedStderr());
    EXPECT_EQ(deaths, std::ssize(kWays));
  }
}

void kill_first_worker() {
  const auto fork_server = children(getpid()).at(0);
  const auto victim = children(fork_server).at(0);
  kill(victim, SIGKILL);
  const auto is_there = [&] { return std::ranges::count(children(fork_server), victim) > 0; };
  for (const auto deadline = Clock::now() + 5s; is_there() && Clock::now() < deadline;)
    std::this_thread::yield();
}

// Kills a worker while it values the last row of a group for the n-th time.
class KillsBetweenRollouts : public testing::ToyAgent {
 public:
  explicit KillsBetweenRollouts(int n) : ToyAgent(2), left_(n) {}
  void value(const ActIn& in, at::Tensor& value) override {
    if (--left_ == 0) kill_first_worker();
    ToyAgent::value(in, value);
  }

 private:
  int left_;
};

// An episode has ended in the last step. The new worker begins another one, not with the first
// observation that the old one left.
TEST_F(SamplerRestartTest, AWorkerThatDiesBetweenRolloutsBeginsANewEpisode) {
  for (const int groups : {1, 2}) {
    KillsBetweenRollouts agent(2 * groups);
    ::testing::internal::CaptureStderr();
    {
      const auto sampler = make_sampler(testing::make_counter({.length = 5}), agent,
                                        {.kind = SamplerKind::kParallelGpu,
                                         .horizon = 5,
                                         .envs = 4,
                                         .workers = 2,
                                         .groups = groups,
                                         .on_death = OnDeath::kRestart});
      for (int i = 0; i < 2; ++i) EXPECT_EQ(sampler->collect().samples.steps, 20);
      const auto& s = sampler->collect().samples;
      EXPECT_TRUE(s.valid.all().item<bool>());
      EXPECT_TRUE(s.is_first[0].all().item<bool>());
      std::int64_t anew = 0;
      for (std::int64_t b = 0; b < 4; ++b) {
        const auto episode = s.observation[0].select(1, b).select(1, 1).narrow(0, 0, 5);
        EXPECT_TRUE(episode.eq(episode[0]).all().item<bool>()) << b << episode;
        anew += episode[0].item<float>() == 0;
      }
      EXPECT_EQ(anew, 2) << "the environments of one worker";
    }
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("it is restarted"), std::string::npos);
  }
}

// The numbers of steps, on which noise depends, go on where the saved sampler was.
TEST_F(SamplerRestartTest, AWorkerThatDiesBeforeItsFirstRolloutKeepsTheClock) {
  const SamplerOptions o{.kind = SamplerKind::kParallelCpu,
                         .horizon = 10,
                         .envs = 4,
                         .workers = 2,
                         .on_death = OnDeath::kRestart};
  testing::ToyAgent agent(2), actor(2);
  NamedTensors saved;
  {
    const auto sampler = make_async_sampler(testing::make_counter(), agent, actor, o);
    for (int i = 0; i < 20; ++i) sampler->collect();
    saved = sampler->save(false);
  }
  const auto clock = shoal::saved(saved, "clock")[0].item<std::int64_t>();
  EXPECT_GT(clock, 10);
  ::testing::internal::CaptureStderr();
  {
    const auto sampler = make_async_sampler(testing::make_counter(), agent, actor, o, {}, saved);
    kill_first_worker();
    std::int64_t writers[2] = {0, 0};
    for (const auto deadline = Clock::now() + 20s; Clock::now() < deadline;) {
      const auto& s = sampler->collect().samples;
      EXPECT_GE(s.first_tick, clock);
      ++writers[s.first_env / 2];
      if (writers[0] > 0 && writers[1] > 0) break;
    }
    EXPECT_GT(writers[0], 0);
    EXPECT_GT(writers[1], 0);
    EXPECT_EQ(sampler->restarts(), 1);
  }
  ::testing::internal::GetCapturedStderr();
}

// Once armed, resets with the next two seeds that environments are given end the process.
class FatalSeeds {
 public:
  void arm() {
    for (auto& seed : all_->seeds) seed = kNext;
  }
  int deaths() const { return all_->deaths; }
  bool survived() const { return all_->others > 0; }
  EnvFactory factory() const {
    return [all = &*all_](const EnvContext& c) { return std::make_unique<Resets>(c, all); };
  }

 private:
  static constexpr std::uint64_t kNone = 0, kNext = 1;  // no seed is this small
  struct All {
    std::atomic<std::uint64_t> seeds[2]{kNone, kNone};
    std::atomic<int> deaths{0}, others{0};  // resets with these seeds, and with other ones
  };
  class Resets : public testing::Counter {
   public:
    Resets(const EnvContext& c, All* all) : Counter(c, {.length = 7}), all_(*all) {}
    void reset(std::optional<std::uint64_t> seed, StepOut out) override {
      if (seed && all_.seeds[0] != kNone) die_or_count(*seed);
      Counter::reset(seed, out);
    }

   private:
    void die_or_count(std::uint64_t seed) {
      for (auto& fatal : all_.seeds) {
        auto next = kNext;
        if (fatal != seed && !fatal.compare_exchange_strong(next, seed)) continue;
        ++all_.deaths;
        std::exit(3);
      }
      ++all_.others;
    }
    All& all_;
  };
  testing::Shared<All> all_;
};

TEST_F(SamplerRestartTest, WhoDiesInItsResetIsFollowedByOneWithAnotherSeed) {
  for (const auto& pace : {Pace{"lock-step", SamplerKind::kParallelGpu, 1, 0, false},
                           {"own pace", SamplerKind::kParallelGpu, 1, 1, false},
                           {"own pace, preempted", SamplerKind::kParallelGpu, 1, 1, false, 0.5},
                           {"acting themselves", SamplerKind::kParallelCpu, 1, 0, false},
                           {"while the caller learns", SamplerKind::kParallelCpu, 1, 0, true}}) {
    SCOPED_TRACE(pace.name);
    FatalSeeds fatal;
    testing::ToyAgent agent(2), actor(2);
    auto o = pace.options(10, 4);
    o.on_death = OnDeath::kRestart;
    ::testing::internal::CaptureStderr();
    {
      const auto sampler = make_either(pace.asynchronous, fatal.factory(), agent, actor, o);
      sampler->collect();
      fatal.arm();
      kill_first_worker();
      const auto deadline = Clock::now() + 20s;
      while (!fatal.survived() && Clock::now() < deadline) sampler->collect();
      EXPECT_TRUE(fatal.survived());
      EXPECT_EQ(fatal.deaths(), 2);
    }
    ::testing::internal::GetCapturedStderr();
  }
}

// Counter cannot be saved, so that a resumed sampler resets it. No worker has begun its work then,
// and none is restarted, as in a new sampler; the saved state is of use afterwards.
TEST_F(SamplerRestartTest, ADeathInTheFirstResetOfAResumedSamplerIsAnError) {
  for (const auto& pace : {Pace{"lock-step", SamplerKind::kParallelGpu, 1, 0, false},
                           {"own pace", SamplerKind::kParallelGpu, 1, 1, false},
                           {"acting themselves", SamplerKind::kParallelCpu, 1, 0, false},
                           {"while the caller learns", SamplerKind::kParallelCpu, 1, 0, true}}) {
    SCOPED_TRACE(pace.name);
    FatalSeeds fatal, harmless;
    testing::ToyAgent agent(2), actor(2);
    auto o = pace.options(10, 4);
    o.on_death = OnDeath::kRestart;
    const auto resume = [&](const FatalSeeds& seeds, const NamedTensors& saved) {
      return make_either(pace.asynchronous, seeds.factory(), agent, actor, o, saved);
    };
    const auto saved = [&] {
      const auto sampler = resume(harmless, {});
      sampler->collect();
      return sampler->save(true);
    }();
    fatal.arm();
    const auto said = message_of<WorkerError>([&] { resume(fatal, saved)->collect(); });
    EXPECT_NE(said.find("called exit(3) while resetting environment"), said.npos) << said;
    EXPECT_TRUE(resume(harmless, saved)->collect().samples.valid.all().item<bool>());
  }
}

// Environment 2 has episodes of 5 steps. Its process dies in the third reset between two rollouts.
class DiesInReset : public testing::Counter {
 public:
  DiesInReset(const EnvContext& c, std::atomic<int>* resets)
      : Counter(c, {.length = c.index == 2 ? 5 : 1000}), resets_(c.index == 2 ? resets : nullptr) {}
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (resets_ != nullptr && !seed && ++*resets_ == 3) std::exit(3);
    Counter::reset(seed, out);
  }

 private:
  std::atomic<int>* resets_;
};

// Environment 3, of the same worker, has taken its last step by then.
TEST_F(SamplerRestartTest, ADeathInAResetTakesNoValueFromOtherEnvironments) {
  for (const auto& pace :
       {Pace{"lock-step", SamplerKind::kParallelGpu, 1, 0, false},
        {"own pace", SamplerKind::kParallelGpu, 1, 1, false},
        {"while the caller learns", SamplerKind::kParallelGpu, 1, 0, true},
        {"own pace, while the caller learns", SamplerKind::kParallelGpu, 1, 1, true}}) {
    SCOPED_TRACE(pace.name);
    const testing::Shared<std::atomic<int>> resets;
    const EnvFactory make_env = [&](const EnvContext& c) {
      return std::make_unique<DiesInReset>(c, &*resets);
    };
    testing::ToyAgent agent(2), actor(2);
    auto o = pace.options(10, 4);
    o.mid_batch_reset = false;
    o.on_death = OnDeath::kRestart;
    ::testing::internal::CaptureStderr();
    {
      const auto sampler = make_either(pace.asynchronous, make_env, agent, actor, o);
      std::vector<int> beginnings;
      for (int rollout = 0; rollout < 8; ++rollout) {
        const auto& s = sampler->collect().samples;
        EXPECT_TRUE(s.valid.select(1, 3).all().item<bool>()) << rollout;
        EXPECT_FALSE(s.truncated.select(1, 3).any().item<bool>()) << rollout;
        EXPECT_GT(s.bootstrap_value[3].item<float>(), 3000) << rollout;
        if (s.is_first[0][3].item<bool>()) beginnings.push_back(rollout);
      }
      EXPECT_EQ(beginnings, (std::vector{0, 3}));
    }
    ::testing::internal::GetCapturedStderr();
  }
}

// Acts slowly, so that a worker is mostly killed while it waits for its actions.
class Slow : public testing::ToyAgent {
 public:
  using ToyAgent::ToyAgent;
  void act(const ActIn& in, ActOut& out) override {
    std::this_thread::sleep_for(300us);
    ToyAgent::act(in, out);
  }
};

// Kills one of the workers, and waits until it is replaced.
void kill_one(Rng& rng) {
  const auto fork_server = children(getpid()).at(0);
  const auto workers = children(fork_server);
  const auto victim = workers.at(static_cast<std::size_t>(rng.integer(0, std::ssize(workers))));
  kill(victim, SIGKILL);
  const auto replaced = [&] {
    const auto now = children(fork_server);
    return now.size() == workers.size() && std::ranges::find(now, victim) == now.end();
  };
  for (const auto deadline = Clock::now() + 5s; !replaced() && Clock::now() < deadline;)
    std::this_thread::yield();
}

TEST_F(SamplerRestartTest, WorkersAtTheirOwnPaceMayBeKilledAtAnyMoment) {
  constexpr std::int64_t kT = 20, kKills = 4;  // a fifth within a minute ends the run
  Rng rng(3);
  ::testing::internal::CaptureStderr();
  for (int round = 0; round < 12; ++round) {
    const bool asynchronous = round % 2 == 1;
    Slow agent(2), actor(2);
    const SamplerOptions o{.horizon = kT,
                           .envs = 6,
                           .workers = 3,
                           .dynamic_batch = 1 + round % 3,
                           .preempt_share = round % 4 < 2 ? 1 : 0.5,
                           .on_death = OnDeath::kRestart};
    const auto sampler =
        make_either(asynchronous, testing::make_counter({.length = 7}), agent, actor, o);
    std::atomic<bool> done = false;
    std::thread killer([&] {
      for (int i = 0; i < kKills; ++i) {
        for (auto spins = rng.integer(0, 200'000); spins > 0; --spins) pause_core();
        kill_one(rng);
      }
      done = true;
    });
    std::int64_t rollouts = 0;
    try {
      for (int after = 0; after < 3; after += done ? 1 : 0) {
        const auto& s = sampler->collect().samples;
        ASSERT_EQ(s.first_tick, kT * rollouts++);
        ASSERT_GT(s.steps, 0);
      }
    } catch (const WorkerError& e) {
      ADD_FAILURE() << e.what();
    }
    killer.join();
  }
  ::testing::internal::GetCapturedStderr();
}

// Variables shared by environments in several processes.
struct Handover {
  std::atomic<int> killer_is_there, kills;
  std::atomic<pid_t> victim;
};

// Worker 0 has arrived and waits for actions. It is killed while the other worker is slow, so that
// its death is found before it gets them.
TEST_F(SamplerRestartTest, WhoDiesBetweenAskingAndBeingAnsweredIsStartedAnew) {
  const testing::Shared<Handover> handover;
  class Pair : public testing::Counter {
   public:
    Pair(const EnvContext& c, Handover& handover)
        : Counter(c, {.length = 100}), kills_(c.index == 1), handover_(handover) {}
    StepResult step(ArraysIn action, StepOut out) override {
      if (++steps_ == 5) kills_ ? kill_the_other() : be_there();
      return Counter::step(action, out);
    }

   private:
    void be_there() {
      while (handover_.killer_is_there == 0) std::this_thread::yield();
      handover_.victim = getpid();
    }
    void kill_the_other() {
      handover_.killer_is_there = 1;
      while (handover_.victim == 0) std::this_thread::yield();
      std::this_thread::sleep_for(20ms);  // enough for it to arrive, on most machines
      kill(handover_.victim, SIGKILL);
      std::this_thread::sleep_for(350ms);  // enough for its death to be found
    }
    bool kills_;
    Handover& handover_;
    int steps_ = 0;
  };
  ::testing::internal::CaptureStderr();
  {
    testing::ToyAgent agent(2);
    const EnvFactory make_env = [&](const EnvContext& c) {
      return std::make_unique<Pair>(c, *handover);
    };
    // Both workers are needed for a batch, so worker 0 waits, and its death is found meanwhile.
    const auto sampler = make_sampler(make_env, agent,
                                      {.horizon = 1000,
                                       .envs = 2,
                                       .workers = 2,
                                       .dynamic_batch = 2,
                                       .dynamic_batch_timeout_us = 2'000'000,
                                       .step_limit = 3s,
                                       .on_death = OnDeath::kRestart});
    const auto& s = sampler->collect().samples;
    EXPECT_GT(s.steps, 1000);
    EXPECT_LT(s.steps, 2000) << "no worker died";
    EXPECT_EQ(sampler->collect().samples.steps, 2000);
  }
  const auto told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
}

}  // namespace
}  // namespace shoal
