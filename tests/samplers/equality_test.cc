#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <tuple>

#include "shoal/agents/actor_critic.h"
#include "shoal/envs/classic_control.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// One seed gives one trajectory: every sampler collects the samples of the serial one, bit for bit.
namespace shoal {
namespace {

using testing::make_gestures;
using testing::make_zoo;
using testing::ToyAgent;

using AgentFactory = std::function<std::unique_ptr<Agent>()>;
using Learn = std::function<void(Batch, Agent&)>;

class EqualityTest : public ::testing::TestWithParam<Workforce> {
 protected:
  static void expect_same(
      const EnvFactory& make_env, const AgentFactory& make_agent, std::int64_t horizon,
      std::int64_t envs, int rollouts, const Learn& learn = [](Batch, Agent&) {}) {
    for (const bool mid_batch_reset : {true, false}) {
      SCOPED_TRACE(!mid_batch_reset ? "resets wait" : "resets at once");
      auto plain = serial(horizon, envs);
      plain.mid_batch_reset = mid_batch_reset;
      plain.decorrelation = 7;
      auto o = plain;
      employ(o, GetParam());
      const auto agent = make_agent(), other = make_agent();
      const auto a = make_sampler(make_env, *agent, plain), b = make_sampler(make_env, *other, o);
      for (int i = 0; i < rollouts && !HasFailure(); ++i) {
        const auto one = a->collect(), two = b->collect();
        expect_same_batches(one, two);
        learn(one, *agent);
        learn(two, *other);
      }
    }
  }
  static AgentFactory network(const EnvFactory& make_env, const ActorCriticOptions& options = {}) {
    return [=] { return make_actor_critic(make_env({})->spec(), ModelOptions{}, options, 3); };
  }
  static std::unique_ptr<Agent> toy() { return std::make_unique<ToyAgent>(3); }
};

TEST_P(EqualityTest, DictionariesMasksStacksAndState) { expect_same(make_zoo(), toy, 7, 6, 5); }

TEST_P(EqualityTest, RolloutsOfOneStep) { expect_same(make_zoo(), toy, 1, 5, 20); }

TEST_P(EqualityTest, ARealNetwork) {
  expect_same(make_cart_pole(), network(make_cart_pole()), 32, 9, 4);
}

// Continuous actions, whose noise is several numbers, and final observations of truncated episodes.
TEST_P(EqualityTest, RealActions) {
  expect_same(make_pendulum(13), network(make_pendulum(), {.squash = true}), 20, 5, 3);
}

// The statistics of observations reach the workers, as other parameters do.
TEST_P(EqualityTest, NormalizedObservationsAfterLearning) {
  const ActorCriticOptions options{.normalize_observation = true};
  expect_same(make_pendulum(13), network(make_pendulum(), options), 20, 5, 3,
              [](Batch a, Agent& x) {
                dynamic_cast<ActorCritic&>(x).observe(a.samples);
                x.parameters_changed();
              });
}

TEST_P(EqualityTest, EveryKindOfActionAtOnce) {
  expect_same(make_gestures(), network(make_gestures()), 9, 5, 4);
}

INSTANTIATE_TEST_SUITE_P(Halves, EqualityTest,
                         ::testing::Values(Workforce(SamplerKind::kSerial, 0, 2)), workforce_name);
INSTANTIATE_TEST_SUITE_P(Workers, EqualityTest,
                         ::testing::Combine(::testing::Values(SamplerKind::kParallelCpu,
                                                              SamplerKind::kParallelGpu),
                                            ::testing::Range(1, 5), ::testing::Values(1, 2)),
                         workforce_name);
INSTANTIATE_TEST_SUITE_P(OwnPace, EqualityTest,
                         ::testing::Combine(::testing::Values(SamplerKind::kParallelGpu),
                                            ::testing::Range(1, 5), ::testing::Values(kOwnPace)),
                         workforce_name);

}  // namespace
}  // namespace shoal
