#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/data/saved.h"
#include "tests/samplers/deaths.h"
#include "tests/support/toy_agents.h"

namespace shoal {
namespace {

using testing::Mishap;
using HangTest = LeavesNothing;

TEST_F(HangTest, WhoIsFrozenBeforeItsStepIsNoticed) {
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
TEST_F(HangTest, AFrozenWorkerThatActsForItselfIsNoticed) {
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
TEST_F(HangTest, WhoRestsWhileOthersStepIsNotFrozen) {
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
      {.horizon = 10, .envs = 2, .workers = 2, .dynamic_batch = 1, .step_limit = 800ms});
  EXPECT_EQ(sampler->collect().samples.steps, 20);
}

TEST_F(HangTest, SuspendingTheWholeRunIsNoHang) {
  const pid_t run = fork();
  if (run == 0) {
    setpgid(0, 0);
    testing::ToyAgent agent(2);
    auto sampler = make_sampler(unlucky(Mishap::kSuspend), agent,
                                {.horizon = 20, .envs = 8, .workers = 2, .step_limit = 1s});
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

TEST_F(HangTest, AConstructionHasTheLimitOfAReset) {
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
TEST_F(HangTest, AHangIsGivenUpAfterARequestToStop) {
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
      return make_either(pace.asynchronous, make_env, agent, actor, o, saved);
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
TEST_F(HangTest, AHangInSaveIsGivenUpAfterARequestToStop) {
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

}  // namespace
}  // namespace shoal
