#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "algos/dqn/dqn_loss.h"
#include "tests/compute/machines.h"
#include "tests/support/special_values.h"

namespace shoal::projection_kernel_test {
namespace {

struct Case {
  at::Tensor probability, reward, discount, support;
};

class ProjectionKernelTest : public KernelTest {
 protected:
  at::Tensor by_kernel(const Case& c) const {
    const auto probability = there(c.probability), reward = there(c.reward),
               discount = there(c.discount), support = there(c.support);
    auto out = filled(c.probability.sizes());
    const Projection in{.probability = probability.const_data_ptr<float>(),
                        .reward = reward.const_data_ptr<float>(),
                        .discount = discount.const_data_ptr<float>(),
                        .support = support.const_data_ptr<float>(),
                        .out = out.data_ptr<float>(),
                        .N = c.probability.size(0),
                        .atoms = c.support.size(0)};
    EXPECT_EQ(kernels().project(in, nullptr), nullptr);
    return out.cpu();
  }
  // Bitwise equal, on the GPU, too.
  void expect_same_bits(const Case& c, const std::string& what) const {
    const auto found = by_kernel(c);
    EXPECT_TRUE(at::equal(found, project(c.probability, c.reward, c.discount, c.support))) << what;
    EXPECT_TRUE(at::allclose(found.sum(1), c.probability.sum(1), 1e-5, 1e-5)) << what;
  }
};

SHOAL_ON_BOTH_MACHINES(ProjectionKernelTest);

at::Tensor random_probabilities(std::int64_t N, std::int64_t atoms) {
  return (at::randn({N, atoms}) * 3).softmax(1);
}

TEST_P(ProjectionKernelTest, EqualsTheCpus) {
  torch::manual_seed(1);
  for (const std::int64_t N : {1, 5, 300}) {
    for (const std::int64_t atoms : {2, 3, 51, 101}) {
      for (const double range : {1.0, 10.0, 333.0}) {
        const auto ended = at::rand({N}).lt(0.2);
        expect_same_bits({random_probabilities(N, atoms), at::randn({N}) * range,
                          at::rand({N}).masked_fill_(ended, 0), at::linspace(-range, range, atoms)},
                         fmt::format("N {}, atoms {}, range {}", N, atoms, range));
      }
    }
  }
}

// Returns on atoms, at the ends and beyond them.
TEST_P(ProjectionKernelTest, BordersOfTheSupport) {
  const auto support = at::linspace(-10, 10, 51);
  const auto all_at = [](std::int64_t N, std::int64_t atom) {
    auto p = at::zeros({N, 51});
    p.select(1, atom).fill_(1);
    return p;
  };
  for (const float reward : {-1e30F, -1000.0F, -20.0F, -0.4F, 0.0F, 0.4F, 0.2F, 20.0F, 1e30F}) {
    for (const float discount : {0.0F, 0.5F, 1.0F}) {
      for (const std::int64_t atom : {0, 1, 25, 49, 50}) {
        const Case c{all_at(2, atom), at::full({2}, reward), at::full({2}, discount), support};
        expect_same_bits(c, fmt::format("reward {}, discount {}, atom {}", reward, discount, atom));
      }
    }
  }
  const auto highest = by_kernel({all_at(1, 50), at::ones({1}), at::ones({1}), support});
  EXPECT_EQ(highest[0][50].item<float>(), 1);
  const auto lowest = by_kernel({all_at(1, 0), -at::ones({1}), at::ones({1}), support});
  EXPECT_EQ(lowest[0][0].item<float>(), 1);
  // If the support does not move, the probabilities stay.
  const auto p = at::rand({3, 51}).softmax(1);
  const auto same = by_kernel({p, at::zeros({3}), at::ones({3}), support});
  EXPECT_TRUE(at::equal(same, p));
}

TEST_P(ProjectionKernelTest, MoreRowsThanAGridHas) {
  torch::manual_seed(2);
  expect_same_bits({random_probabilities(70'000, 3), at::randn({70'000}), at::rand({70'000}),
                    at::linspace(-1, 1, 3)},
                   "70,000 rows");
}

// By the definition, in double precision.
at::Tensor project_slowly(const Case& c) {
  const auto N = c.probability.size(0), atoms = c.support.size(0);
  const double low = c.support[0].item<float>(), high = c.support[-1].item<float>();
  const double gap = (high - low) / static_cast<double>(atoms - 1);
  const auto p = c.probability.accessor<float, 2>();
  const auto reward = c.reward.accessor<float, 1>(), discount = c.discount.accessor<float, 1>();
  auto out = at::zeros({N, atoms}, at::kDouble);
  auto to = out.accessor<double, 2>();
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t i = 0; i < atoms; ++i) {
      const double moved = double{reward[n]} + discount[n] * (low + gap * static_cast<double>(i));
      const double place = (std::clamp(moved, low, high) - low) / gap;
      const auto below = std::min(static_cast<std::int64_t>(place), atoms - 2);
      const double upper = place - static_cast<double>(below);
      to[n][below] += p[n][i] * (1 - upper);
      to[n][below + 1] += p[n][i] * upper;
    }
  }
  return out;
}

// At the ends of the support, within rounding of them, beyond them, and in between.
at::Tensor rewards_at(double low, double high, std::int64_t atoms) {
  const auto gap = static_cast<float>((high - low) / static_cast<double>(atoms - 1));
  std::vector<float> all = {0.0F, -1000.0F, 1000.0F};
  for (const double end : {low, high}) {
    const auto at = static_cast<float>(end);
    for (const float x : {at, std::nextafter(at, -1e9F), std::nextafter(at, 1e9F), at - gap,
                          at + gap, at - gap / 3, at + gap / 3, at / 10})
      all.push_back(x);
  }
  return at::tensor(all);
}

TEST_P(ProjectionKernelTest, LosesNoProbabilityAndMovesNone) {
  torch::manual_seed(3);
  for (const std::int64_t atoms : {2, 3, 11, 51, 101, 501}) {
    for (const auto& [low, high] :
         {std::pair{-10.0, 10.0}, {-1.0, 3.0}, {0.0, 200.0}, {-0.3, 0.1}}) {
      const auto rewards = rewards_at(low, high, atoms);
      const auto N = rewards.size(0);
      for (const double gamma : {0.0, 0.5, 0.9, 0.99, 0.997, 1.0}) {
        for (const bool at_the_ends : {false, true}) {
          auto probability = random_probabilities(N, atoms);
          if (at_the_ends) {  // half of the rewards at each end
            probability.zero_();
            probability.select(1, 0).fill_(0.5F);
            probability.select(1, atoms - 1).add_(0.5F);
          }
          const Case c{probability, rewards, at::full({N}, gamma), at::linspace(low, high, atoms)};
          const auto wanted = project_slowly(c);
          for (const auto& found :
               {by_kernel(c), project(c.probability, c.reward, c.discount, c.support)}) {
            const auto exact = found.to(at::kDouble);
            EXPECT_LT((exact - wanted).abs().max().item<double>(), 1e-6)
                << fmt::format("{} atoms in {} to {}, gamma {}", atoms, low, high, gamma);
            EXPECT_LT((exact.sum(1) - 1).abs().max().item<double>(), 1e-6);
          }
        }
      }
    }
  }
}

TEST_P(ProjectionKernelTest, SpecialValuesAreThoseOfTensors) {
  torch::manual_seed(4);
  const auto special = testing::special_values();
  const auto N = special.size(0);
  for (int place = 0; place < 3; ++place) {
    Case c{random_probabilities(N, 5), at::randn({N}), at::rand({N}), at::linspace(-2, 2, 5)};
    const auto holds = place == 0 ? c.reward : place == 1 ? c.discount : c.probability.select(1, 3);
    holds.copy_(special);
    const auto found = by_kernel(c);
    EXPECT_TRUE(
        testing::alike(found, project(c.probability, c.reward, c.discount, c.support), 1e-6))
        << place;
    EXPECT_TRUE(at::equal(found.sum(1).isnan().logical_and(special.isnan()), special.isnan()));
  }
}

}  // namespace
}  // namespace shoal::projection_kernel_test
