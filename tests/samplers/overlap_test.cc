#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "shoal/samplers/sampler.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// Two groups beside one where it must show: environments that sleep for a millisecond a step, one
// to a worker, and acting that takes two for all of them and one for half. One group then takes
// three milliseconds a step, and two groups two.
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
    std::this_thread::sleep_for(2ms * out.action[0].size(0) / kEnvs);
    ToyAgent::act(in, out);
  }
};

std::unique_ptr<Sampler> make(Agent& agent, int groups) {
  return make_sampler(
      [](const EnvContext& c) { return std::make_unique<Sleeper>(c); }, agent,
      {.horizon = kHorizon, .envs = kEnvs, .workers = static_cast<int>(kEnvs), .groups = groups});
}

double seconds_of_window(Sampler& sampler) {
  const auto start = Clock::now();
  sampler.collect();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(OverlapTest, TwoGroupsActWhileEnvironmentsStep) {
  constexpr double kWanted = 1.4;  // of 1.5
  Ponderer agent(2);
  const auto one = make(agent, 1), two = make(agent, 2);
  // The best of a few windows: others may use the machine, too.
  double of_one = 1e9, of_two = 1e9;
  for (int i = 0; i < 15 && of_one < kWanted * of_two; ++i) {
    of_one = std::min(of_one, seconds_of_window(*one));
    of_two = std::min(of_two, seconds_of_window(*two));
  }
  EXPECT_GT(of_one, kWanted * of_two)
      << kHorizon << " steps took " << of_one << " s and " << of_two << " s";
}

}  // namespace
}  // namespace shoal
