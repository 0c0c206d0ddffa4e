#include "shoal/envs/wrappers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/registry.h"
#include "tests/envs/env_player.h"

namespace shoal {
namespace {

// The reward is the action, the observation the step number. Episodes have six steps; every fourth
// step loses a life. Infos: the action, the maximum action, the step.
class Ladder : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t>, StepOut out) override {
    step_ = 0;
    *out.observation.as<float>() = 0;
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const auto a = *action.as<std::int64_t>();
    *out.observation.as<float>() = static_cast<float>(++step_);
    *out.info.as<std::int64_t>(0) = a + step_;
    *out.info.as<std::int32_t>(1) = static_cast<std::int32_t>(10 - step_);
    *out.info.as<double>(2) = static_cast<double>(step_);
    const bool life_lost = step_ == 4;
    return {.reward = static_cast<float>(a),
            .terminated = step_ == 6 || life_lost,
            .life_lost = life_lost};
  }

 private:
  EnvSpec spec_{.id = "Ladder",
                .observation = ArraySpec{},
                .action = ActionSpec::discrete(100),
                .info = {{"sum", {.dtype = DType::kInt64}, PerEpisode::kSum},
                         {"most", {.dtype = DType::kInt32}, PerEpisode::kMax},
                         {"last", {.dtype = DType::kFloat64}, PerEpisode::kLast}}};
  std::int64_t step_ = 0;
};

EnvFactory make_ladder() {
  return [](const EnvContext&) { return std::make_unique<Ladder>(); };
}

TEST(TimeLimitTest, TruncatesWhereNothingElseEnds) {
  EnvPlayer player(with_time_limit(make_ladder(), 3));
  player.reset();
  EXPECT_FALSE(player.step(0).truncated);
  EXPECT_FALSE(player.step(0).truncated);
  const auto last = player.step(0);
  EXPECT_TRUE(last.truncated);
  EXPECT_FALSE(last.terminated);
  player.reset();
  EXPECT_FALSE(player.step(0).truncated) << "counted anew";
}

// The last step within a limit.
StepResult last_of_ladder(int limit) {
  EnvPlayer player(with_time_limit(make_ladder(), limit));
  player.reset();
  StepResult last;
  for (int t = 0; t < limit; ++t) last = player.step(0);
  return last;
}

TEST(TimeLimitTest, ATerminatedEpisodeIsNotTruncated) {
  const StepResult last = last_of_ladder(6);
  EXPECT_TRUE(last.terminated);
  EXPECT_FALSE(last.truncated);
}

TEST(TimeLimitTest, ALifeLostInTheLastStepEndsTheGame) {
  const StepResult last = last_of_ladder(4);
  EXPECT_TRUE(last.terminated);
  EXPECT_FALSE(last.life_lost) << "the sampler resets what is over";
}

TEST(ActionRepeatTest, AddsUpRewardsAndInfos) {
  EnvPlayer player(with_action_repeat(make_ladder(), 3));
  player.reset();
  const auto result = player.step(7);
  EXPECT_EQ(result.reward, 21);
  EXPECT_EQ(player.observed<float>(), 3);
  EXPECT_EQ(player.info<std::int64_t>(0), 7 + 1 + 7 + 2 + 7 + 3);
  EXPECT_EQ(player.info<std::int32_t>(1), 9);
  EXPECT_EQ(player.info<double>(2), 3);
}

TEST(ActionRepeatTest, StopsWhereAnEpisodeOrALifeEnds) {
  EnvPlayer player(with_action_repeat(make_ladder(), 3));
  player.reset();
  player.step(1);
  auto result = player.step(1);
  EXPECT_TRUE(result.life_lost);
  EXPECT_EQ(result.reward, 1) << "the fourth step";
  result = player.step(1);
  EXPECT_TRUE(result.terminated);
  EXPECT_EQ(result.reward, 2) << "the fifth and the sixth";
}

TEST(StackTest, ChangesTheSpecAlone) {
  const auto make_env = with_stack(make_ladder(), 4);
  EXPECT_EQ(make_env({})->spec().observation[0].stack, 4);
  EXPECT_EQ(make_env({})->spec().observation[0].shape, std::vector<std::int64_t>{});
  EXPECT_THROW(with_stack(make_env, 2)({}), Error);
}

TEST(RewardTest, IsChangedAndTheScoreIsNot) {
  struct Case {
    EnvFactory make_env;
    float of_7, of_2;
  };
  for (const auto& [make_env, of_7, of_2] :
       {Case{with_clipped_reward(make_ladder(), -1, 3), 3, 2},
        Case{with_scaled_reward(make_ladder(), -0.5), -3.5F, -1}}) {
    EnvPlayer player(make_env);
    ASSERT_EQ(player.env->spec().info.size(), 4U);
    EXPECT_EQ(player.env->spec().info[3].name, "score");
    EXPECT_EQ(player.env->spec().info[3].reduce, PerEpisode::kSum);
    player.reset();
    EXPECT_EQ(player.step(7).reward, of_7);
    EXPECT_EQ(player.info<float>(3), 7);
    EXPECT_EQ(player.step(2).reward, of_2);
    EXPECT_EQ(player.info<float>(3), 2);
    EXPECT_EQ(player.info<std::int64_t>(0), 2 + 2) << "the environment's own";
  }
}

TEST(RewardTest, NestedWrappersKeepTheFirstScore) {
  EnvPlayer player(
      with_scaled_reward(with_action_repeat(with_clipped_reward(make_ladder(), -1, 3), 2), 10));
  ASSERT_EQ(player.env->spec().info.size(), 4U);
  player.reset();
  EXPECT_EQ(player.step(7).reward, 60);
  EXPECT_EQ(player.info<float>(3), 14) << "of both steps, as the environment gave them";
}

// Compared with the variance of all sums so far, computed in two passes.
TEST(NormalizedRewardTest, DividesByTheDeviationOfTheDiscountedSum) {
  constexpr double kDiscount = 0.9, kEpsilon = 1e-8, kPriorWeight = 1e-4;
  EnvPlayer player(with_normalized_reward(make_ladder(), kDiscount, kEpsilon));
  player.reset();
  std::vector<double> sums;
  double sum = 0;
  for (int t = 0; t < 50; ++t) {
    const std::int64_t action = t * t % 11;
    const auto result = player.step(action);
    sum = static_cast<double>(action) + (result.terminated ? 0 : kDiscount * sum);
    sums.push_back(sum);
    const double weight = static_cast<double>(sums.size()) + kPriorWeight;
    double mean = 0, variance = kPriorWeight;
    for (const double x : sums) mean += x / weight;
    variance += kPriorWeight * mean * mean;
    for (const double x : sums) variance += (x - mean) * (x - mean);
    const double expected = static_cast<double>(action) / std::sqrt(variance / weight + kEpsilon);
    ASSERT_NEAR(result.reward, expected, 1e-4 * std::abs(expected)) << "step " << t;
    if (result.terminated && !result.life_lost) player.reset();
  }
}

TEST(WrapperTest, SavesWhatItRemembers) {
  const auto make_env = with_normalized_reward(with_time_limit(make_cart_pole(), 7));
  EnvPlayer x(make_env), y(make_env);
  x.reset(3);
  for (int t = 0; t < 4; ++t) x.step(t % 2);
  std::vector<std::byte> bytes;
  ASSERT_TRUE(x.env->save(bytes));
  ASSERT_TRUE(y.env->load(bytes));
  for (int t = 0; t < 30; ++t) {
    const auto p = x.step(t % 2), q = y.step(t % 2);
    ASSERT_EQ(x.observation, y.observation);
    ASSERT_EQ(p.reward, q.reward);
    ASSERT_EQ(p.truncated, q.truncated);
    if (t == 2) {
      EXPECT_TRUE(p.truncated);
    }
    if (!p.terminated && !p.truncated) continue;
    x.reset();
    y.reset();
  }
  EXPECT_THROW(y.env->load(std::span(bytes).first(3)), Error);
  EXPECT_FALSE(EnvPlayer(with_time_limit(make_ladder(), 3)).env->save(bytes))
      << "the ladder cannot";
}

TEST(WrapperTest, SomeNumbersOfTheObservationInAnyOrder) {
  EnvPlayer all(make_cart_pole()), some(with_observation_elements(make_cart_pole(), {2, 0, 2}));
  EXPECT_EQ(some.env->spec().observation[0].shape, (std::vector<std::int64_t>{3}));
  const auto expect_chosen = [&] {
    const auto* one = reinterpret_cast<const float*>(some.observation.data());
    const auto* whole = reinterpret_cast<const float*>(all.observation.data());
    EXPECT_EQ(one[0], whole[2]);
    EXPECT_EQ(one[1], whole[0]);
    EXPECT_EQ(one[2], whole[2]);
  };
  all.reset(5), some.reset(5);
  expect_chosen();
  for (int t = 0; t < 5; ++t) {
    EXPECT_EQ(all.step(t % 2).reward, some.step(t % 2).reward);
    expect_chosen();
  }
  EXPECT_THROW(with_observation_elements(make_cart_pole(), {}), Error);
  for (const std::int64_t bad : {-1, 4})
    EXPECT_THROW(with_observation_elements(make_cart_pole(), {0, bad})({}), Error);
}

TEST(WrapperTest, RefusesWhatMakesNoSense) {
  EXPECT_THROW(with_time_limit(make_ladder(), 0), Error);
  EXPECT_THROW(with_action_repeat(make_ladder(), 0), Error);
  EXPECT_THROW(with_stack(make_ladder(), 0), Error);
  EXPECT_THROW(with_clipped_reward(make_ladder(), 1, 1), Error);
  EXPECT_THROW(with_scaled_reward(make_ladder(), 0), Error);
  EXPECT_THROW(with_normalized_reward(make_ladder(), 1.5), Error);
  EXPECT_THROW(with_normalized_reward(make_ladder(), 0.9, 0), Error);
}

TEST(WrapperTest, TheRegistryAppliesThemInOrder) {
  EnvPlayer player(make_env_factory(
      "Pendulum-v1",
      {.atari = {}, .gymnasium = {}, .action_repeat = 3, .time_limit = 2, .reward_scale = 0.5}));
  EnvPlayer plain(make_pendulum());
  player.reset(1);
  plain.reset(1);
  float reward = 0;
  for (int i = 0; i < 3; ++i) reward += plain.push(1).reward;
  const auto first = player.push(1);
  EXPECT_FLOAT_EQ(first.reward, reward / 2);
  EXPECT_FLOAT_EQ(player.info<float>(0), reward);
  EXPECT_EQ(player.observation, plain.observation);
  EXPECT_FALSE(first.truncated);
  EXPECT_TRUE(player.push(1).truncated) << "agent steps are counted";
}

}  // namespace
}  // namespace shoal
