#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/agents/q_agent.h"
#include "shoal/envs/classic_control.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/device_under_test.h"
#include "tests/support/plain_model.h"
#include "tests/support/random_pictures.h"
#include "tests/support/toy_envs.h"

// A sampler whose agent is on a device collects what a serial one on the CPU does: rows, copies,
// noise and captured steps. On the stand-in, and on a GPU where there is one.
namespace shoal {
namespace {

using testing::StandInDevice;
using testing::TestDevice;

constexpr int kRollouts = 6;
// Networks add up in another order there, so numbers differ in their last bits.
constexpr double kTolerance = 1e-4;

struct Case {
  std::string name;
  std::unique_ptr<Agent> here, there;
  std::unique_ptr<Sampler> one, two;
};

class DeviceSamplingTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  using AgentFactory = std::function<std::unique_ptr<Agent>()>;

  void add(const std::string& name, const EnvFactory& make_env, const AgentFactory& make_agent,
           const SamplerOptions& options) {
    auto here = make_agent(), there = make_agent();
    auto one = make_sampler(make_env, *here, serial(options.horizon, options.envs));
    auto two = make_sampler(make_env, *there, options);
    cases_.push_back({name, std::move(here), std::move(there), std::move(one), std::move(two)});
  }

  static AgentFactory actor_critic(const EnvFactory& make_env, const ModelOptions& model = {}) {
    return [=] { return testing::make_plain_actor_critic(make_env, model); };
  }

  void expect_same(Case& c) {
    SCOPED_TRACE(c.name);
    c.there->to(device_.device());
    for (int i = 0; i < kRollouts && !HasFailure(); ++i) {
      const auto one = c.one->collect(), two = c.two->collect();
      expect_equal(one.samples.observation, two.samples.observation, "observation");
      expect_equal(one.samples.action[0], two.samples.action[0], "action");
      expect_equal(one.samples.reward, two.samples.reward, "reward");
      expect_equal(one.samples.is_first, two.samples.is_first, "first");
      expect_equal(one.samples.terminated, two.samples.terminated, "terminated");
      expect_equal(one.samples.truncated, two.samples.truncated, "truncated");
      expect_equal(one.samples.valid, two.samples.valid, "valid");
      expect_near(one.samples.agent_info, two.samples.agent_info, kTolerance);
      expect_near(one.samples.initial_state, two.samples.initial_state, kTolerance);
      EXPECT_EQ(one.episodes.size(), two.episodes.size());
    }
  }

  std::vector<Case> cases_;
  testing::DeviceUnderTest device_;
};

TEST_P(DeviceSamplingTest, CollectsWhatTheCpuDoes) {
  at::set_num_threads(1);
  at::globalContext().setAllowTF32CuDNN(false);  // convolutions in float32, as on the CPU
  const auto pole = make_cart_pole(), pictures = testing::make_random_pictures();
  const auto zoo = testing::make_zoo();
  const auto pole_agent = actor_critic(pole);
  add("one batch", pole, pole_agent, parallel(7, 6, 2));
  add("two groups", pole, pole_agent, parallel(7, 6, 2, 2));
  add("in this process", pole, pole_agent, serial(7, 6));
  auto own_pace = parallel(7, 6, 3);
  own_pace.dynamic_batch = 2;
  add("own pace", pole, pole_agent, own_pace);
  auto to_host = parallel(7, 6, 2);
  to_host.host_rollouts = true;
  add("rollouts on the host", pole, pole_agent, to_host);
  add("memory", pole, actor_critic(pole, {.memory = MemoryKind::kLstm}), parallel(7, 6, 2, 2));
  add("pictures in stacks", pictures, actor_critic(pictures, {.name = "nature-cnn"}),
      parallel(7, 6, 2, 2));
  add("dictionaries and masks", zoo, actor_critic(zoo), parallel(7, 6, 2, 2));
  add(
      "values of actions", pole,
      [&] { return make_q_agent(pole({})->spec(), ModelOptions{}, {.epsilons = 6}, 3); },
      parallel(7, 6, 2));
  // Every worker is forked by now; a device may be opened.
  if (const auto why = device_.open(GetParam()); !why.empty()) GTEST_SKIP() << why;
  for (auto& c : cases_) expect_same(c);
  EXPECT_GT(device_.watched().captured, 0);
  EXPECT_EQ(device_.watched().refusals, std::vector<std::string>{});
  cases_.clear();
  EXPECT_EQ(StandInDevice::faults(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(On, DeviceSamplingTest,
                         ::testing::Values(TestDevice::kNoGpu, TestDevice::kGpu), testing::name_of);

}  // namespace
}  // namespace shoal
