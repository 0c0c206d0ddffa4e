#include "algos/adam.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shoal {
namespace {

TEST(AdamTest, StepsEqualTorchOptim) {
  torch::manual_seed(1);
  std::vector<at::Tensor> ours = {at::randn({3, 2}), at::randn({5})}, theirs;
  for (const auto& p : ours) theirs.push_back(p.clone().requires_grad_());
  Adam adam(ours, 1e-5);
  torch::optim::Adam reference(theirs, torch::optim::AdamOptions(0.1).eps(1e-5));
  for (const double rate : {0.1, 0.05, 0.02}) {
    static_cast<torch::optim::AdamOptions&>(reference.param_groups()[0].options()).lr(rate);
    std::vector<at::Tensor> gradients;
    for (auto& p : theirs) gradients.push_back((p.mutable_grad() = at::randn_like(p)).clone());
    reference.step();
    adam.step(gradients, rate);
    for (std::size_t i = 0; i < ours.size(); ++i)
      ASSERT_TRUE(at::allclose(ours[i], theirs[i], 1e-5, 1e-6)) << rate;
  }
}

TEST(AdamTest, GradientsMayLieInAnotherOrder) {
  torch::manual_seed(1);
  const auto start = at::randn({4, 3, 2, 2}), gradient = at::randn({4, 3, 2, 2});
  std::vector<at::Tensor> a = {start.clone()}, b = {start.clone()};
  Adam(a, 1e-5).step({gradient}, 0.1);
  Adam(b, 1e-5).step({gradient.contiguous(at::MemoryFormat::ChannelsLast)}, 0.1);
  EXPECT_TRUE(at::equal(a[0], b[0]));
}

TEST(AdamTest, StateIsItsOwnAndEnoughToGoOn) {
  std::vector<at::Tensor> a = {at::ones({4})}, b = {at::ones({4})};
  Adam first(a, 1e-8), second(b, 1e-8);
  const auto gradient = at::tensor({1.0F, -2.0F, 0.5F, 0.0F});
  first.step({gradient}, 0.1);
  b[0].copy_(a[0]);
  auto to = second.state();
  for (const auto& [name, tensor] : first.state()) to.at(name).copy_(tensor);
  first.step({gradient.neg()}, 0.1);
  second.step({gradient.neg()}, 0.1);
  EXPECT_TRUE(at::equal(a[0], b[0]));
}

TEST(AdamTest, GradientsAreClippedByTheirCommonNorm) {
  const auto make = [] {
    return std::vector<at::Tensor>{at::full({4}, 3.0F), at::full({2, 2}, -4.0F)};
  };
  auto gradients = make();
  EXPECT_NEAR(clip_gradients(gradients, 2).item<double>(), 10, 1e-5);
  EXPECT_TRUE(at::allclose(gradients[0], at::full({4}, 0.6F)));
  EXPECT_TRUE(at::allclose(gradients[1], at::full({2, 2}, -0.8F)));
  for (const double no_limit : {0.0, 11.0}) {
    gradients = make();
    EXPECT_NEAR(clip_gradients(gradients, no_limit).item<double>(), 10, 1e-5);
    EXPECT_TRUE(at::allclose(gradients[0], at::full({4}, 3.0F))) << no_limit;
  }
}

}  // namespace
}  // namespace shoal
