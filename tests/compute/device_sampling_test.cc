#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shoal/agents/actor_critic.h"
#include "shoal/agents/q_agent.h"
#include "shoal/envs/classic_control.h"
#include "shoal/runners/device.h"
#include "src/compute/accelerator.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/plain_model.h"
#include "tests/support/random_pictures.h"
#include "tests/support/stand_in_device.h"
#include "tests/support/toy_envs.h"
#include "tests/support/watched_accelerator.h"

// A sampler whose agent is on a device collects what a serial one on the CPU does: rows, copies,
// noise and captured steps. On the stand-in, and on a GPU where there is one.
namespace shoal {
namespace {

using testing::kStandIn;
using testing::StandInDevice;

constexpr int kRollouts = 6;
// Networks add up in another order there, so numbers differ in their last bits.
constexpr double kTolerance = 1e-4;

struct Case {
  std::string name;
  EnvFactory make_env;
  std::unique_ptr<Agent> here, there;
  std::unique_ptr<Sampler> one, two;
};

enum class Machine : std::uint8_t { kStandIn, kGpu };

class DeviceSamplingTest : public ::testing::TestWithParam<Machine> {
 protected:
  using AgentFactory = std::function<std::unique_ptr<Agent>()>;

  void add(const std::string& name, const EnvFactory& make_env, const AgentFactory& make_agent,
           SamplerOptions options) {
    Case c{.name = name, .here = make_agent(), .there = make_agent()};
    c.one = make_sampler(make_env, *c.here, serial(options.horizon, options.envs));
    options.seed = 1;
    c.two = make_sampler(make_env, *c.there, options);
    cases_.push_back(std::move(c));
  }

  static AgentFactory actor_critic(const EnvFactory& make_env, const ModelOptions& model = {}) {
    return [=] {
      const auto spec = make_env({})->spec();
      const ActorCriticOptions options;
      return make_actor_critic(
          spec,
          std::make_shared<testing::PlainModel>(
              make_model(spec.observation, policy_size(spec, options), model, 3, spec.action)),
          options);
    };
  }

  void open() {
    if (GetParam() == Machine::kStandIn) {
      stand_in_.emplace();
    } else {
      if (count_gpus() == 0) GTEST_SKIP() << "there is no GPU";
      device_ = {at::kCUDA, 0};
      open_device(device_);
      if (accelerator(device_) == nullptr) GTEST_SKIP() << "the plugin was not built";
    }
    watched_.emplace(device_.type());
  }

  static void expect_near(const NamedTensors& one, const NamedTensors& two) {
    for (const auto& [name, x] : one)
      EXPECT_TRUE(at::allclose(x.to(at::kDouble), two.at(name).cpu().to(at::kDouble), kTolerance,
                               kTolerance))
          << name;
  }

  void expect_same(Case& c) {
    SCOPED_TRACE(c.name);
    c.there->to(device_);
    for (int i = 0; i < kRollouts && !HasFailure(); ++i) {
      const auto one = c.one->collect(), two = c.two->collect();
      expect_equal(one.samples.observation, two.samples.observation, "observation");
      expect_equal(one.samples.action[0], two.samples.action[0], "action");
      expect_equal(one.samples.reward, two.samples.reward, "reward");
      expect_equal(one.samples.is_first, two.samples.is_first, "first");
      expect_equal(one.samples.terminated, two.samples.terminated, "terminated");
      expect_equal(one.samples.truncated, two.samples.truncated, "truncated");
      expect_equal(one.samples.valid, two.samples.valid, "valid");
      expect_near(one.samples.agent_info, two.samples.agent_info);
      expect_near(one.samples.initial_state, two.samples.initial_state);
      EXPECT_EQ(one.episodes.size(), two.episodes.size());
    }
  }

  std::vector<Case> cases_;
  at::Device device_ = kStandIn;
  std::optional<StandInDevice> stand_in_;
  std::optional<testing::WatchedAccelerator> watched_;
};

TEST_P(DeviceSamplingTest, CollectsWhatTheCpuDoes) {
  at::set_num_threads(1);
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
  add("pictures in stacks", pictures, actor_critic(pictures), parallel(7, 6, 2, 2));
  add("dictionaries and masks", zoo, actor_critic(zoo), parallel(7, 6, 2, 2));
  add(
      "values of actions", pole,
      [&] { return make_q_agent(pole({})->spec(), ModelOptions{}, {.epsilons = 6}, 3); },
      parallel(7, 6, 2));
  // Every worker is forked by now; a device may be opened.
  ASSERT_NO_FATAL_FAILURE(open());
  if (IsSkipped()) return;
  for (auto& c : cases_) expect_same(c);
  EXPECT_GT(watched_->captured, 0);
  EXPECT_EQ(watched_->refusals, std::vector<std::string>{});
  cases_.clear();
  EXPECT_EQ(StandInDevice::faults(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(On, DeviceSamplingTest,
                         ::testing::Values(Machine::kStandIn, Machine::kGpu), [](const auto& test) {
                           return test.param == Machine::kStandIn ? "StandIn" : "Cuda";
                         });

}  // namespace
}  // namespace shoal
