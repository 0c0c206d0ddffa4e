#include "shoal/algos/returns.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "tests/algos/rollouts.h"

namespace shoal {
namespace {

struct Endings {
  double terminated, truncated;  // probability of each, at every step
};

Samples rollout_with(std::int64_t T, std::int64_t B, const Endings& endings) {
  auto s = random_rollout(T, B, 1, 2);
  s.terminated = at::rand({T, B}).lt(endings.terminated);
  s.truncated = at::rand({T, B}).lt(endings.truncated);  // sometimes both
  s.final_value =
      at::where(s.truncated.logical_and(s.terminated.logical_not()), at::randn({T, B}) * 3, 0.0F);
  s.bootstrap_value = at::randn({B});
  return s;
}

// The definition itself: a sum of temporal differences for every step.
Advantages by_hand(const Samples& s, const at::Tensor& value, double discount, double lambda) {
  const auto r = s.reward.accessor<float, 2>(), v = value.accessor<float, 2>();
  const auto final_value = s.final_value.accessor<float, 2>();
  const auto terminated = s.terminated.accessor<bool, 2>(),
             truncated = s.truncated.accessor<bool, 2>();
  const auto next_value = [&](std::int64_t t, std::int64_t b) -> double {
    if (terminated[t][b]) return 0;
    if (truncated[t][b]) return final_value[t][b];
    return t + 1 < s.T ? v[t + 1][b] : s.bootstrap_value[b].item<float>();
  };
  Advantages out{at::zeros({s.T, s.B}), at::zeros({s.T, s.B})};
  for (std::int64_t b = 0; b < s.B; ++b) {
    for (std::int64_t t = 0; t < s.T; ++t) {
      double sum = 0, weight = 1;
      for (auto l = t; l < s.T; ++l, weight *= discount * lambda) {
        sum += weight * (r[l][b] + discount * next_value(l, b) - v[l][b]);
        if (terminated[l][b] || truncated[l][b]) break;
      }
      out.advantage[t][b] = sum;
      out.target[t][b] = sum + v[t][b];
    }
  }
  return out;
}

TEST(ReturnsTest, AdvantagesEqualTheDefinition) {
  torch::manual_seed(1);
  for (const auto& endings : {Endings{0, 0}, Endings{0.2, 0}, Endings{0, 0.2}, Endings{0.15, 0.15},
                              Endings{1, 0}, Endings{0, 1}}) {
    for (const double lambda : {0.0, 0.95, 1.0}) {
      for (const double discount : {0.0, 0.9, 1.0}) {
        for (const std::int64_t T : {1, 2, 23}) {
          const auto s = rollout_with(T, 5, endings);
          const auto value = at::randn({T, 5});
          const auto gae = generalized_advantages(s, value, discount, lambda);
          const auto expected = by_hand(s, value, discount, lambda);
          ASSERT_TRUE(at::allclose(gae.advantage, expected.advantage, 1e-5, 1e-5))
              << "T " << T << ", lambda " << lambda << ", discount " << discount << ", terminated "
              << endings.terminated << ", truncated " << endings.truncated;
          ASSERT_TRUE(at::allclose(gae.target, expected.target, 1e-5, 1e-5));
        }
      }
    }
  }
}

// A number that is not finite affects only the steps of its episode up to it.
TEST(ReturnsTest, NumbersThatAreNotFiniteStayInTheirEpisode) {
  torch::manual_seed(3);
  for (const float bad : {NAN, INFINITY}) {
    auto s = rollout_with(12, 3, {0, 0});
    for (const auto t : {3, 7}) s.terminated[t][0] = s.truncated[t][1] = true;
    auto value = at::randn({12, 3});
    s.reward[5][0] = bad;
    value[6][1] = bad;
    const auto gae = generalized_advantages(s, value, 0.9, 0.95);
    const auto expected = by_hand(s, value, 0.9, 0.95);
    EXPECT_TRUE(at::allclose(gae.advantage, expected.advantage, 1e-5, 1e-5, /*equal_nan=*/true))
        << gae.advantage << expected.advantage;
    EXPECT_TRUE(gae.advantage.narrow(0, 0, 4).isfinite().all().item<bool>());
  }
}

// With lambda 1 the target is the discounted sum of rewards; after a truncation it bootstraps from
// the value of the final observation.
TEST(ReturnsTest, TargetsOfAnEpisodeDoneByHand) {
  auto s = random_rollout(4, 1, 1, 2);
  s.reward = at::tensor({1.0F, 2.0F, 4.0F, 8.0F}).view({4, 1});
  s.truncated[1][0] = true;
  s.final_value[1][0] = 100.0F;
  s.bootstrap_value[0] = 1000.0F;
  const auto target = generalized_advantages(s, at::full({4, 1}, 7.0F), 0.5, 1).target.flatten();
  EXPECT_TRUE(
      at::allclose(target, at::tensor({1 + 1 + 25.0F, 2 + 50.0F, 4 + 4 + 250.0F, 8 + 500.0F})));
  s.terminated[1][0] = true;
  const auto ended = generalized_advantages(s, at::full({4, 1}, 7.0F), 0.5, 1).target.flatten();
  EXPECT_TRUE(at::allclose(ended.narrow(0, 0, 2), at::tensor({2.0F, 2.0F})));
}

// A step of which only the observation is known: the step before it bootstraps from the value
// of that observation, as if truncated.
TEST(ReturnsTest, WhatAWorkerDiedInIsAnEnd) {
  torch::manual_seed(7);
  for (const double lambda : {0.0, 0.9, 1.0}) {
    auto s = rollout_with(6, 2, {0, 0});
    const auto value = at::randn({6, 2});
    auto plain = rollout_with(6, 2, {0, 0});
    plain.reward = s.reward.clone();
    plain.bootstrap_value = s.bootstrap_value;
    plain.truncated[2][1] = true;
    plain.final_value[2][1] = value[3][1];
    for (std::int64_t t = 3; t < 6; ++t) {
      s.valid[t][1] = false;
      s.reward[t][1] = 0;
      --s.steps;
    }
    s.truncated[3][1] = true;
    const auto gae = generalized_advantages(s, value, 0.9, lambda),
               want = generalized_advantages(plain, value, 0.9, lambda);
    const auto log_ratio = at::randn({6, 2});
    const auto v = vtrace(outcomes(s), value, log_ratio, {.lambda = lambda}),
               wanted = vtrace(outcomes(plain), value, log_ratio, {.lambda = lambda});
    const auto turned = value.t().contiguous().t();  // by tensor operations
    const auto u = vtrace(outcomes(s), turned, log_ratio, {.lambda = lambda});
    for (const auto& [one, other] : {std::pair{gae.target, want.target},
                                     {gae.advantage, want.advantage},
                                     {v.target, wanted.target},
                                     {v.advantage, wanted.advantage},
                                     {u.target, wanted.target},
                                     {u.advantage, wanted.advantage}}) {
      EXPECT_TRUE(at::allclose(one.narrow(0, 0, 3), other.narrow(0, 0, 3), 1e-5, 1e-5)) << lambda;
      EXPECT_TRUE(at::allclose(one.select(1, 0), other.select(1, 0), 1e-5, 1e-5)) << lambda;
    }
  }
}

TEST(ReturnsTest, NeedsNoGradients) {
  auto s = rollout_with(5, 2, {0.1, 0.1});
  const auto gae = generalized_advantages(s, at::randn({5, 2}).requires_grad_(), 0.9, 0.9);
  EXPECT_FALSE(gae.advantage.requires_grad());
  EXPECT_FALSE(gae.target.requires_grad());
}

}  // namespace
}  // namespace shoal
