#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/core/stop.h"
#include "shoal/data/saved.h"
#include "shoal/envs/wrappers.h"
#include "shoal/samplers/async_sampler.h"
#include "src/core/cpu_features.h"
#include "tests/support/shared.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;
using testing::Mishap;
using Clock = std::chrono::steady_clock;

// Running child processes of `pid`.
std::vector<pid_t> children(pid_t pid) {
  std::vector<pid_t> out;
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid));
  for (pid_t child = 0; file >> child;) out.push_back(child);
  return out;
}

std::size_t shared_memory_files() {
  const auto files = std::filesystem::directory_iterator("/dev/shm");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

EnvFactory unlucky(Mishap mishap) {
  return [mishap](const EnvContext& c) {
    return std::make_unique<testing::Unlucky>(c, mishap, 5, 12);
  };
}

std::unique_ptr<Sampler> make_either(bool asynchronous, const EnvFactory& make_env, Agent& agent,
                                     Agent& actor, const SamplerOptions& options) {
  if (asynchronous) return make_async_sampler(make_env, agent, actor, options);
  return make_sampler(make_env, agent, options);
}

struct Outcome {
  std::string text;
  std::int64_t env = -1, step = -1;
  Clock::duration took{};
};

// Collects until the mishap; environment 5 of 8 belongs to worker 1 of 2.
Outcome run_until_death(Mishap mishap, std::chrono::milliseconds limit = 60s,
                        SamplerKind kind = SamplerKind::kParallelGpu, bool asynchronous = false,
                        std::int64_t batch = 0) {
  testing::ToyAgent agent(2), actor(2);
  Outcome out;
  auto before = Clock::now();
  try {
    const SamplerOptions options{.kind = kind,
                                 .horizon = 10,
                                 .envs = 8,
                                 .workers = 2,
                                 .dynamic_batch = batch,
                                 .step_limit = limit,
                                 .reset_limit = limit};
    const auto sampler = make_either(asynchronous, unlucky(mishap), agent, actor, options);
    sampler->collect();
    before = Clock::now();
    sampler->collect();
    // The other worker may go on for a while.
    while (asynchronous && Clock::now() - before < 5s) sampler->collect();
  } catch (const WorkerError& e) {
    EXPECT_EQ(e.worker, 1) << e.what();
    out = {e.what(), e.env, e.step, Clock::now() - before};
  }
  EXPECT_FALSE(out.text.empty()) << "the run went on";
  return out;
}

void expect_words(const Outcome& out, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(out.text.find(word), std::string::npos) << word << " not in: " << out.text;
}

class DeathTest : public ::testing::Test {
 protected:
  std::size_t files_before_ = shared_memory_files();
  void TearDown() override {
    EXPECT_TRUE(children(getpid()).empty());
    EXPECT_EQ(shared_memory_files(), files_before_);
  }
};

TEST_F(DeathTest, AnExceptionArrivesWithItsText) {
  const auto out = run_until_death(Mishap::kThrow);
  EXPECT_LT(out.took, 2s);
  EXPECT_EQ(out.env, 5);
  EXPECT_EQ(out.step, 11);
  expect_words(out, {"worker 1", "environment 5", "step 11", "the wheel came off"});
}

TEST_F(DeathTest, AnAbortIsNamed) {
  const auto out = run_until_death(Mishap::kAbort);
  EXPECT_LT(out.took, 2s);
  expect_words(out, {"worker 1", "environment 5", "step 11", "SIGABRT"});
}

TEST_F(DeathTest, ACallOfExitIsNamed) {
  const auto out = run_until_death(Mishap::kExit);
  EXPECT_LT(out.took, 2s);
  expect_words(out, {"worker 1", "environment 5", "step 11", "exit(3)"});
}

TEST_F(DeathTest, AKilledWorkerIsNoticed) {
  const auto out = run_until_death(Mishap::kKill);
  EXPECT_LT(out.took, 2s);
  expect_words(out, {"worker 1", "environment 5", "step 11", "SIGKILL"});
}

TEST_F(DeathTest, AHangEndsAtItsLimit) {
  const auto out = run_until_death(Mishap::kHang, 500ms);
  EXPECT_GT(out.took, 400ms);
  EXPECT_LT(out.took, 1500ms);
  expect_words(out, {"worker 1", "environment 5", "step 11"});
}

TEST_F(DeathTest, TheSameWhereWorkersActThemselves) {
  for (const auto mishap : {Mishap::kThrow, Mishap::kExit, Mishap::kKill}) {
    const auto out = run_until_death(mishap, 60s, SamplerKind::kParallelCpu);
    EXPECT_LT(out.took, 2s);
    expect_words(out, {"worker 1", "environment 5", "step 11"});
  }
  const auto out = run_until_death(Mishap::kHang, 500ms, SamplerKind::kParallelCpu);
  EXPECT_LT(out.took, 1500ms);
  expect_words(out, {"worker 1", "environment 5", "step 11"});
}

TEST_F(DeathTest, TheSameWhileTheCallerLearns) {
  for (const auto kind : {SamplerKind::kParallelCpu, SamplerKind::kParallelGpu}) {
    for (const auto mishap : {Mishap::kThrow, Mishap::kExit, Mishap::kKill}) {
      const auto out = run_until_death(mishap, 60s, kind, /*asynchronous=*/true);
      EXPECT_LT(out.took, 2s);
      expect_words(out, {"worker 1", "environment 5", "step 11"});
    }
    const auto out = run_until_death(Mishap::kHang, 500ms, kind, /*asynchronous=*/true);
    EXPECT_LT(out.took, 1500ms);
    expect_words(out, {"worker 1", "environment 5", "step 11"});
  }
}

TEST_F(DeathTest, TheSameAtTheirOwnPace) {
  for (const bool asynchronous : {false, true}) {
    const auto run = [&](Mishap mishap, std::chrono::milliseconds limit) {
      return run_until_death(mishap, limit, SamplerKind::kParallelGpu, asynchronous, /*batch=*/1);
    };
    for (const auto mishap : {Mishap::kThrow, Mishap::kExit, Mishap::kKill}) {
      const auto out = run(mishap, 60s);
      EXPECT_LT(out.took, 2s);
      expect_words(out, {"worker 1", "environment 5", "step 11"});
    }
    const auto out = run(Mishap::kHang, 500ms);
    EXPECT_LT(out.took, 1500ms);
    expect_words(out, {"worker 1", "environment 5", "step 11"});
  }
}

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
       {"the wheel came off", "exit(3)", "SIGKILL", "for more than 0.3 s", "it is restarted"})
    EXPECT_NE(said.find(word), std::string::npos) << word << " not in: " << said;
}

// Worker 1 of 2 dies four times, in four ways. Rollouts before and after are complete, none comes
// twice, and only those under way are lost. Worker 0 is not affected. The same for the sampler of a
// rank that is not the first.
TEST_F(DeathTest, WorkersThatActWhileTheCallerLearnsAreStartedAnew) {
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
                                             .step_limit = 300ms,
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

// How workers are given their steps.
struct Pace {
  std::string name;
  SamplerKind kind;
  int groups;
  std::int64_t batch;
  bool asynchronous;

  SamplerOptions options(std::int64_t horizon, std::int64_t envs) const {
    return {.kind = kind,
            .horizon = horizon,
            .envs = envs,
            .workers = 2,
            .groups = groups,
            .dynamic_batch = batch};
  }
};

// The environments of worker 0 continue as without any death, and those of worker 1 begin new
// episodes with the rollout after each death.
TEST_F(DeathTest, WorkersThatStepAreStartedAnew) {
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
    o.step_limit = 300ms;
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
TEST_F(DeathTest, AWorkerThatDiesBetweenRolloutsBeginsANewEpisode) {
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
TEST_F(DeathTest, AWorkerThatDiesBeforeItsFirstRolloutKeepsTheClock) {
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

TEST_F(DeathTest, WhoDiesInItsResetIsFollowedByOneWithAnotherSeed) {
  for (const auto& pace : {Pace{"lock-step", SamplerKind::kParallelGpu, 1, 0, false},
                           {"own pace", SamplerKind::kParallelGpu, 1, 1, false},
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
TEST_F(DeathTest, ADeathInAResetTakesNoValueFromOtherEnvironments) {
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

TEST_F(DeathTest, WorkersAtTheirOwnPaceMayBeKilledAtAnyMoment) {
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
    const auto make_env = testing::make_counter({.length = 7});
    std::unique_ptr<Sampler> sampler;
    if (asynchronous)
      sampler = make_async_sampler(make_env, agent, actor, o);
    else
      sampler = make_sampler(make_env, agent, o);
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
TEST_F(DeathTest, WhoDiesBetweenAskingAndBeingAnsweredIsStartedAnew) {
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

TEST_F(DeathTest, WhoIsFrozenBeforeItsStepIsNoticed) {
  testing::ToyAgent agent(2);
  const auto sampler = make_sampler(
      testing::make_counter(), agent,
      {.horizon = 50'000, .envs = 3, .workers = 3, .dynamic_batch = 1, .step_limit = 400ms});
  const auto victim = children(getpid()).at(1);
  std::thread freezer([&] { kill(victim, SIGSTOP); });
  const auto before = Clock::now();
  EXPECT_THROW(sampler->collect(), WorkerError);
  EXPECT_LT(Clock::now() - before, 5s);
  freezer.join();
}

// The other worker continues and fills the ring, so the reader does not wait for the frozen one.
TEST_F(DeathTest, AFrozenWorkerThatActsForItselfIsNoticed) {
  testing::ToyAgent agent(2), actor(2);
  const auto sampler = make_async_sampler(testing::make_counter(), agent, actor,
                                          {.kind = SamplerKind::kParallelCpu,
                                           .horizon = 10,
                                           .envs = 2,
                                           .workers = 2,
                                           .step_limit = 400ms},
                                          {.slots = 4});
  sampler->collect();
  while (sampler->counts().published < 4) {  // now both wait for a free slot
  }
  kill(children(getpid()).at(1), SIGSTOP);
  const auto before = Clock::now();
  std::string text;
  try {
    while (Clock::now() - before < 20s) sampler->collect();
  } catch (const WorkerError& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("waiting for more than 0.4 s"), std::string::npos) << text;
  EXPECT_LT(Clock::now() - before, 5s);
}

// A worker that has filled its rollout may be idle for longer than the limit of a step.
TEST_F(DeathTest, WhoRestsWhileOthersStepIsNotFrozen) {
  class Tired : public testing::Counter {
   public:
    explicit Tired(const EnvContext& c) : Counter(c, {.length = 100}), tired_(c.index == 0) {}
    StepResult step(ArraysIn action, StepOut out) override {
      if (tired_) std::this_thread::sleep_for(120ms);
      return Counter::step(action, out);
    }

   private:
    bool tired_;
  };
  testing::ToyAgent agent(2);
  const auto sampler = make_sampler(
      [](const EnvContext& c) { return std::make_unique<Tired>(c); }, agent,
      {.horizon = 10, .envs = 2, .workers = 2, .dynamic_batch = 1, .step_limit = 300ms});
  EXPECT_EQ(sampler->collect().samples.steps, 20);
}

TEST_F(DeathTest, AnEnvironmentThatCannotBeResetIsNamed) {
  expect_words(run_until_death(Mishap::kThrowInReset),
               {"worker 1", "environment 5", "cannot be reset"});
}

TEST_F(DeathTest, WorkersDieWithTheAgentProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t agent_process = fork();
  if (agent_process == 0) {
    testing::ToyAgent agent(2);
    auto sampler =
        make_sampler(testing::make_counter(), agent, {.horizon = 10, .envs = 8, .workers = 3});
    sampler->collect();
    char ready = 'r';
    if (write(ends[1], &ready, 1) != 1) _exit(1);
    for (;;) sampler->collect();
  }
  char ready = 0;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  const auto workers = children(agent_process);
  ASSERT_EQ(workers.size(), 3U);
  kill(agent_process, SIGKILL);
  waitpid(agent_process, nullptr, 0);
  const auto deadline = Clock::now() + 2s;
  auto running = [](pid_t pid) {
    // A zombie does not run.
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    const auto state = text.rfind(") ");
    return state != std::string::npos && text[state + 2] != 'Z';
  };
  for (const pid_t worker : workers) {
    while (running(worker) && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_FALSE(running(worker)) << worker;
  }
  close(ends[0]);
  close(ends[1]);
}

TEST_F(DeathTest, SuspendingTheWholeRunIsNoHang) {
  const pid_t run = fork();
  if (run == 0) {
    setpgid(0, 0);
    testing::ToyAgent agent(2);
    auto sampler = make_sampler(unlucky(Mishap::kSuspend), agent,
                                {.horizon = 20, .envs = 8, .workers = 2, .step_limit = 600ms});
    try {
      sampler->collect();
    } catch (const Error& e) {
      fmt::print(stderr, "{}\n", e.what());
      std::fflush(nullptr);
      _exit(1);
    }
    sampler.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(run, &status, WUNTRACED), run);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::this_thread::sleep_for(1500ms);  // more than the limit
  kill(-run, SIGCONT);
  ASSERT_EQ(waitpid(run, &status, 0), run);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// A factory that never returns for environment `index`.
EnvFactory endless_construction(std::int64_t index) {
  return [index](const EnvContext& c) -> std::unique_ptr<Env> {
    while (c.index == index) pause();
    return std::make_unique<testing::Counter>(c, testing::CounterOptions{});
  };
}

TEST_F(DeathTest, AConstructionHasTheLimitOfAReset) {
  testing::ToyAgent agent(2);
  std::string text;
  try {
    make_sampler(endless_construction(5), agent,
                 {.horizon = 10, .envs = 8, .workers = 2, .step_limit = 1h, .reset_limit = 300ms});
  } catch (const WorkerError& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("worker 1"), std::string::npos) << text;
  EXPECT_NE(text.find("constructing environment 5"), std::string::npos) << text;
}

TEST(ConstructionDeathTest, InTheMainProcessHasTheLimitOfAReset) {
  testing::ToyAgent agent(2);
  for (const auto kind : {SamplerKind::kParallelGpu, SamplerKind::kSerial})
    EXPECT_EXIT(make_sampler(endless_construction(kind == SamplerKind::kSerial ? 5 : 0), agent,
                             {.kind = kind, .horizon = 10, .envs = 8, .reset_limit = 300ms}),
                ::testing::ExitedWithCode(1),
                "this process has been constructing environment [05] for more than 0.3 s; if this "
                "is not a hang, raise sampler.reset_limit");
}

// On a request to stop while environment 5 hangs, collect() gives up the rollout. A run can still
// be saved and resumed, after that rollout.
TEST_F(DeathTest, AHangIsGivenUpAfterARequestToStop) {
  constexpr std::int64_t kT = 10;
  set_stop_grace(300ms);
  for (const auto& pace :
       {Pace{"lock-step", SamplerKind::kParallelGpu, 1, 0, false},
        Pace{"halves", SamplerKind::kParallelGpu, 2, 0, false},
        Pace{"own pace", SamplerKind::kParallelGpu, 1, 1, false},
        Pace{"acting themselves", SamplerKind::kParallelCpu, 1, 0, false},
        Pace{"acting themselves, while the caller learns", SamplerKind::kParallelCpu, 1, 0, true},
        Pace{"while the caller learns", SamplerKind::kParallelGpu, 1, 0, true},
        Pace{"own pace, while the caller learns", SamplerKind::kParallelGpu, 1, 1, true}}) {
    SCOPED_TRACE(pace.name);
    testing::ToyAgent agent(2), actor(2);
    const auto o = pace.options(kT, 8);
    const auto make = [&](const EnvFactory& make_env, const NamedTensors& saved) {
      std::unique_ptr<Sampler> sampler;
      if (pace.asynchronous)
        sampler = make_async_sampler(make_env, agent, actor, o, {}, saved);
      else
        sampler = make_sampler(make_env, agent, o, saved);
      return sampler;
    };
    request_stop(0);
    NamedTensors saved;
    const auto begin = Clock::now();
    {
      const auto sampler = make(unlucky(Mishap::kHang), {});
      sampler->collect();
      request_stop(SIGTERM);
      EXPECT_THROW(while (Clock::now() - begin < 20s) sampler->collect(), Interrupted);
      saved = sampler->save(false);
    }
    EXPECT_LT(Clock::now() - begin, 10s) << "waits in other threads end, too";
    request_stop(0);
    for (std::int64_t b = 0; b < 8; ++b)
      EXPECT_EQ(shoal::saved(saved, "env/" + std::to_string(b)).numel(), 0);
    const auto sampler = make(testing::make_counter({.length = 1000}), saved);
    const auto& s = sampler->collect().samples;
    EXPECT_TRUE(s.is_first[0].all().item<bool>());
    EXPECT_GE(s.first_tick, 2 * kT) << "no tick comes twice";
  }
  set_stop_grace(kStopGrace);
}

// A save() that hangs is given up, too.
TEST_F(DeathTest, AHangInSaveIsGivenUpAfterARequestToStop) {
  class Unsaveable : public testing::Counter {
   public:
    explicit Unsaveable(const EnvContext& c) : Counter(c, {}) {}
    bool save(std::vector<std::byte>&) const override {
      for (;;) pause();
    }
  };
  set_stop_grace(100ms);
  for (const auto kind : {SamplerKind::kParallelGpu, SamplerKind::kParallelCpu}) {
    testing::ToyAgent agent(2);
    const auto sampler =
        make_sampler([](const EnvContext& c) { return std::make_unique<Unsaveable>(c); }, agent,
                     {.kind = kind, .horizon = 10, .envs = 2, .workers = 2});
    sampler->collect();
    request_stop(SIGTERM);
    EXPECT_THROW(sampler->save(false), Interrupted);
    EXPECT_EQ(shoal::saved(sampler->save(false), "env/1").numel(), 0);
    request_stop(0);
  }
  set_stop_grace(kStopGrace);
}

// An environment whose steps fork. The child returns from its step while the worker takes the next
// one, so that anything it writes would remain visible.
class Forking : public testing::Counter {
 public:
  explicit Forking(const EnvContext& c) : Counter(c, {.length = 7}) {}
  StepResult step(ArraysIn action, StepOut out) override {
    let_child_return();
    int ends[2];
    require(pipe(ends) == 0, "no pipe");
    child_ = fork();
    if (child_ == 0) {
      close(ends[1]);
      char nothing = 0;
      while (read(ends[0], &nothing, 1) < 0) {
      }
      return {.reward = -1};
    }
    close(ends[0]);
    held_by_ = ends[1];
    return Counter::step(action, out);
  }

 private:
  void let_child_return() {
    if (child_ <= 0) return;
    close(held_by_);
    while (waitpid(child_, nullptr, 0) < 0) {
    }
  }
  pid_t child_ = 0;
  int held_by_ = -1;  // a pipe, from which the child reads until it is closed
};

TEST_F(DeathTest, AForkThatComesBackFromAStepIsNoSecondWorker) {
  for (const auto kind : {SamplerKind::kParallelGpu, SamplerKind::kParallelCpu}) {
    testing::ToyAgent agent(2), other(2);
    const SamplerOptions o{.kind = kind, .horizon = 10, .envs = 2, .workers = 2};
    const auto plain = make_sampler(testing::make_counter({.length = 7}), other, o);
    const auto sampler =
        make_sampler([](const EnvContext& c) { return std::make_unique<Forking>(c); }, agent, o);
    for (int rollout = 0; rollout < 3; ++rollout) {
      const auto &s = sampler->collect().samples, &want = plain->collect().samples;
      EXPECT_TRUE(at::equal(s.reward, want.reward));
      EXPECT_TRUE(at::equal(s.terminated, want.terminated));
      EXPECT_TRUE(at::equal(s.observation[0], want.observation[0]));
    }
  }
}

TEST_F(DeathTest, AnEnvironmentThatCannotBeBuiltEndsTheRunAtOnce) {
  // Only environment 5 fails; the agent process itself builds environment 0 to learn its spec.
  expect_words(run_until_death(Mishap::kThrowInConstructor),
               {"worker 1", "environment 5", "cannot be built"});
}

}  // namespace
}  // namespace shoal
