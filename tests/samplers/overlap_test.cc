#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "shoal/samplers/sampler.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// Two groups compared with one. Environments, one per worker, sleep for 1 ms per step. Acting takes
// 2 ms for all of them and 1 ms for half. A step then takes 3 ms with one group and 2 ms with two.
// Workers that act themselves take 1.5 ms: each acts for a quarter, in parallel with the others.
namespace shoal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kEnvs = 4, kHorizon = 100;

class Sleeper : public testing::Counter {
 public:
  explicit Sleeper(const EnvContext& c) : Counter(c, {.length = 1000}) {}
  StepResult step(ArraysIn action, StepOut out) override {
    std::this_thread::sleep_for(1ms);
    return Counter::step(action, out);
  }
};

class Ponderer : public testing::ToyAgent {
 public:
  using ToyAgent::ToyAgent;
  void act(const ActIn& in, ActOut& out) override {
    std::this_thread::sleep_for(2000us * out.action[0].size(0) / kEnvs);
    ToyAgent::act(in, out);
  }
};

std::unique_ptr<Sampler> make(Agent& agent, int groups,
                              SamplerKind kind = SamplerKind::kParallelGpu) {
  return make_sampler([](const EnvContext& c) { return std::make_unique<Sleeper>(c); }, agent,
                      {.kind = kind,
                       .horizon = kHorizon,
                       .envs = kEnvs,
                       .workers = static_cast<int>(kEnvs),
                       .groups = groups});
}

double seconds_of_rollout(Sampler& sampler) {
  const auto start = Clock::now();
  sampler.collect();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Compares the best of a few rollouts: other processes may use the machine, too.
void expect_gain(Sampler& slow, Sampler& fast, double wanted) {
  double of_slow = 1e9, of_fast = 1e9;
  for (int i = 0; i < 15 && of_slow < wanted * of_fast; ++i) {
    of_slow = std::min(of_slow, seconds_of_rollout(slow));
    of_fast = std::min(of_fast, seconds_of_rollout(fast));
  }
  const auto milliseconds = 1000.0 / static_cast<double>(kHorizon);
  fmt::print("{:.2f} and {:.2f} ms a step\n", of_slow * milliseconds, of_fast * milliseconds);
  EXPECT_GT(of_slow, wanted * of_fast);
}

TEST(OverlapTest, TwoGroupsActWhileEnvironmentsStep) {
  constexpr double kWanted = 1.4;  // of 1.5
  Ponderer agent(2);
  const auto one = make(agent, 1), two = make(agent, 2);
  expect_gain(*one, *two, kWanted);
}

// One step in four of each environment is slow, at another time in each. In lock-step every step is
// slow, with free-running workers one in four.
class Slow : public testing::Counter {
 public:
  explicit Slow(const EnvContext& c) : Counter(c, {.length = 1000}), index_(c.index) {}
  StepResult step(ArraysIn action, StepOut out) override {
    if (steps_++ % kEnvs == index_) std::this_thread::sleep_for(4ms);
    return Counter::step(action, out);
  }

 private:
  std::int64_t index_, steps_ = 0;
};

TEST(OverlapTest, WorkersAtTheirOwnPaceDoNotWaitForTheSlowestOfEachStep) {
  constexpr double kWanted = 2.5;  // of 4
  testing::ToyAgent agent(2), other(2);
  SamplerOptions o{.horizon = kHorizon, .envs = kEnvs, .workers = static_cast<int>(kEnvs)};
  const EnvFactory make_env = [](const EnvContext& c) { return std::make_unique<Slow>(c); };
  const auto lockstep = make_sampler(make_env, agent, o);
  o.dynamic_batch = 1;
  const auto own_pace = make_sampler(make_env, other, o);
  expect_gain(*lockstep, *own_pace, kWanted);
}

TEST(OverlapTest, WorkersActAtTheSameTime) {
  constexpr double kWanted = 1.7;  // of 2
  Ponderer agent(2);
  const auto one = make(agent, 1), own = make(agent, 1, SamplerKind::kParallelCpu);
  expect_gain(*one, *own, kWanted);
}

}  // namespace
}  // namespace shoal
