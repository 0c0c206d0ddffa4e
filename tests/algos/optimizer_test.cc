#include "algos/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "shoal/algos/optimizer.h"

namespace shoal {
namespace {

template <class Reference, class Options>
void expect_steps_of(OptimizerKind kind, const Options& options) {
  torch::manual_seed(1);
  std::vector<at::Tensor> ours = {at::randn({3, 2}), at::randn({5})}, theirs;
  for (const auto& p : ours) theirs.push_back(p.clone().requires_grad_());
  Optimizer optimizer(kind, ours, 1e-5);
  Reference reference(theirs, options);
  for (const double rate : {0.1, 0.05, 0.02}) {
    static_cast<Options&>(reference.param_groups()[0].options()).lr(rate);
    std::vector<at::Tensor> gradients;
    for (auto& p : theirs) gradients.push_back((p.mutable_grad() = at::randn_like(p)).clone());
    reference.step();
    optimizer.set_learning_rate(rate);
    optimizer.step(gradients);
    for (std::size_t i = 0; i < ours.size(); ++i)
      ASSERT_TRUE(at::allclose(ours[i], theirs[i], 1e-6, 1e-7)) << rate;
  }
}

TEST(OptimizerTest, AdamEqualsThatOfTorch) {
  expect_steps_of<torch::optim::Adam>(OptimizerKind::kAdam,
                                      torch::optim::AdamOptions(0.1).eps(1e-5));
}

TEST(OptimizerTest, RmsPropEqualsThatOfTorch) {
  expect_steps_of<torch::optim::RMSprop>(OptimizerKind::kRmsProp,
                                         torch::optim::RMSpropOptions(0.1).alpha(0.99).eps(1e-5));
}

TEST(OptimizerTest, GradientsMayLieInAnotherOrder) {
  torch::manual_seed(1);
  const auto start = at::randn({4, 3, 2, 2}), gradient = at::randn({4, 3, 2, 2});
  for (const auto kind : {OptimizerKind::kAdam, OptimizerKind::kRmsProp}) {
    std::vector<at::Tensor> a = {start.clone()}, b = {start.clone()};
    Optimizer one(kind, a, 1e-5), other(kind, b, 1e-5);
    for (auto* optimizer : {&one, &other}) optimizer->set_learning_rate(0.1);
    one.step({gradient});
    other.step({gradient.contiguous(at::MemoryFormat::ChannelsLast)});
    EXPECT_TRUE(at::equal(a[0], b[0]));
  }
}

TEST(OptimizerTest, AdamDoesNotDependOnTheNumberOfThreads) {
  torch::manual_seed(1);
  const int threads = at::get_num_threads();
  // More than one thread's share, with a remainder.
  const auto start = at::randn({3, 70'001}), gradient = at::randn({3, 70'001});
  at::Tensor first;
  for (const int count : {1, 2, 5}) {
    at::set_num_threads(count);
    Optimizer optimizer(OptimizerKind::kAdam, {start.clone()}, 1e-5);
    optimizer.set_learning_rate(0.1);
    for (int i = 0; i < 2; ++i) {
      std::vector<at::Tensor> gradients = {gradient.clone()};
      clip_gradients(gradients, 2);
      optimizer.step(gradients);
    }
    if (!first.defined()) first = optimizer.parameters()[0];
    EXPECT_TRUE(at::equal(optimizer.parameters()[0], first)) << count << " threads";
  }
  at::set_num_threads(threads);
}

TEST(OptimizerTest, AStepAfterTheForwardPassIsNoticedBackward) {
  auto parameter = at::ones({3}).requires_grad_();
  const auto loss = parameter.square().sum();
  Optimizer optimizer(OptimizerKind::kAdam, {parameter}, 1e-5);
  optimizer.set_learning_rate(0.1);
  optimizer.step({at::ones({3})});
  EXPECT_THROW(loss.backward(), c10::Error);
}

// Denormal moments would make every later step slow.
TEST(OptimizerTest, MomentsWithoutAGradientAreNotDenormal) {
  for (const auto kind : {OptimizerKind::kAdam, OptimizerKind::kRmsProp}) {
    std::vector<at::Tensor> parameters = {at::ones({20})};
    Optimizer optimizer(kind, parameters, 1e-5);
    optimizer.set_learning_rate(0.1);
    for (const auto& [name, moment] : optimizer.state())
      if (name != "optimizer.steps") at::Tensor(moment).fill_(1e-36);
    for (int i = 0; i < 6000; ++i) optimizer.step({at::zeros({20})});
    for (const auto& [name, moment] : optimizer.state())
      if (name != "optimizer.steps") {
        EXPECT_LT(moment.max().item<float>(), 2e-37) << name;
        const auto denormal = (moment > 0) & (moment < std::numeric_limits<float>::min());
        EXPECT_FALSE(denormal.any().item<bool>()) << name;
      }
  }
}

TEST(OptimizerTest, StateIsItsOwnAndEnoughToGoOn) {
  for (const auto kind : {OptimizerKind::kAdam, OptimizerKind::kRmsProp}) {
    std::vector<at::Tensor> a = {at::ones({4})}, b = {at::ones({4})};
    Optimizer first(kind, a, 1e-8), second(kind, b, 1e-8);
    const auto gradient = at::tensor({1.0F, -2.0F, 0.5F, 0.0F});
    for (auto* optimizer : {&first, &second}) optimizer->set_learning_rate(0.1);
    first.step({gradient});
    b[0].copy_(a[0]);
    auto to = second.state();
    for (const auto& [name, tensor] : first.state()) to.at(name).copy_(tensor);
    first.step({gradient.neg()});
    second.step({gradient.neg()});
    EXPECT_TRUE(at::equal(a[0], b[0]));
  }
}

TEST(OptimizerTest, GradientsAreClippedByTheirCommonNorm) {
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

// Autograd gives one tensor for two parameters of which only the sum is used.
TEST(OptimizerTest, GradientsInTheSameMemoryAreChangedOnce) {
  torch::manual_seed(1);
  const auto x = at::randn({2, 3}), metrics = at::zeros({1});
  const auto mean = x.mean(0);
  // A large epsilon, so that steps depend on the size of gradients.
  const auto after = [](const auto& step) {
    std::vector<at::Tensor> both;
    for (int i = 0; i < 2; ++i) both.push_back(at::ones({3}).requires_grad_());
    DistributedOptimizer optimizer(group_of_one(), OptimizerKind::kRmsProp, both, 1);
    optimizer.set_learning_rate(0.1);
    step(optimizer, both[0] + both[1]);
    return at::stack(both).detach();
  };
  constexpr double kLimit = 0.1;
  const auto expected = after([&](auto& optimizer, const auto&) {
    optimizer.step({mean.clone(), mean.clone()}, metrics, kLimit);
  });
  const auto one_tensor = after([&](auto& optimizer, const auto&) {
    const auto both = mean.clone();
    optimizer.step({both, both}, metrics, kLimit);
  });
  const auto whole = after([&](auto& optimizer, const auto& sum) {
    optimizer.step(
        1,
        [&](std::size_t) {
          return RankLoss{(sum * mean).sum(), metrics, 2};
        },
        kLimit);
  });
  const auto in_pieces = after([&](auto& optimizer, const auto& sum) {
    optimizer.step(
        2,
        [&](std::size_t i) {
          return RankLoss{(sum * x[static_cast<std::int64_t>(i)]).sum(), metrics, 1};
        },
        kLimit);
  });
  EXPECT_TRUE(at::equal(one_tensor, expected));
  EXPECT_TRUE(at::equal(whole, expected));
  EXPECT_TRUE(at::allclose(in_pieces, expected));
}

}  // namespace
}  // namespace shoal
