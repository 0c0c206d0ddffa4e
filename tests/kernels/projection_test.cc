#include <gtest/gtest.h>
#include <torch/torch.h>

#include "algos/dqn_loss.h"
#include "tests/kernels/machines.h"

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
  // Every bit, on the GPU, too.
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

// Returns that fall on atoms, on the ends and beyond them.
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
  // Unmoved, the probabilities stay but for the rounding of places.
  const auto p = at::rand({3, 51}).softmax(1);
  const auto same = by_kernel({p, at::zeros({3}), at::ones({3}), support});
  EXPECT_TRUE(at::allclose(same, p, 1e-4, 1e-6));
}

TEST_P(ProjectionKernelTest, MoreRowsThanAGridHas) {
  torch::manual_seed(2);
  expect_same_bits({random_probabilities(70'000, 3), at::randn({70'000}), at::rand({70'000}),
                    at::linspace(-1, 1, 3)},
                   "70,000 rows");
}

}  // namespace
}  // namespace shoal::projection_kernel_test
