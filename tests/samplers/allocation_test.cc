#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "shoal/envs/classic_control.h"
#include "shoal/samplers/sampler.h"
#include "tests/support/allocations.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

namespace shoal {
namespace {

// The reward is the number of allocations of the process since the previous step. It includes that
// step and everything the worker did until this one: a reset, the steps of its other environments,
// and the wait for the agent process.
class Metered : public Env {
 public:
  explicit Metered(std::unique_ptr<Env> env) : env_(std::move(env)) {}

  const EnvSpec& spec() const override { return env_->spec(); }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override { env_->reset(seed, out); }
  StepResult step(ArraysIn action, StepOut out) override {
    const long now = allocations();
    auto result = env_->step(action, out);
    result.reward = static_cast<float>(now - before_);
    before_ = now;
    return result;
  }

 private:
  std::unique_ptr<Env> env_;
  long before_ = 0;
};

EnvFactory metered(const EnvFactory& make_env) {
  return [make_env](const EnvContext& c) { return std::make_unique<Metered>(make_env(c)); };
}

void expect_none(const EnvFactory& make_env, std::int64_t actions, bool mid_batch_reset = true) {
  testing::ToyAgent agent(actions);
  auto sampler =
      make_sampler(metered(make_env), agent,
                   {.horizon = 64, .envs = 4, .workers = 2, .mid_batch_reset = mid_batch_reset});
  sampler->collect();  // the first step counts the construction of the environments
  const auto batch = sampler->collect();
  EXPECT_FALSE(batch.episodes.empty()) << "no reset was metered";
  EXPECT_EQ(batch.samples.reward.sum().item<float>(), 0);
}

TEST(AllocationTest, WorkersMakeNoneWithCartPole) { expect_none(make_cart_pole(), 2); }

TEST(AllocationTest, WorkersMakeNoneWithDictionariesMasksAndInfos) {
  expect_none(testing::make_zoo(), 3);
}

TEST(AllocationTest, WorkersMakeNoneWhereResetsWait) { expect_none(testing::make_zoo(), 3, false); }

class Wasteful : public testing::Counter {
 public:
  explicit Wasteful(const EnvContext& context) : Counter(context, {}) {}
  StepResult step(ArraysIn action, StepOut out) override {
    waste_ = std::make_unique<float>(1.0F);
    return Counter::step(action, out);
  }

 private:
  std::unique_ptr<float> waste_;
};

TEST(AllocationTest, OneAStepIsNoticed) {
  testing::ToyAgent agent(2);
  const auto make_env = [](const EnvContext& c) { return std::make_unique<Wasteful>(c); };
  auto sampler = make_sampler(metered(make_env), agent, {.horizon = 8, .envs = 1, .workers = 1});
  sampler->collect();
  EXPECT_TRUE(sampler->collect().samples.reward.eq(1).all().item<bool>());
}

}  // namespace
}  // namespace shoal
