#include "algos/pg/ppo_loss.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

namespace shoal {
namespace {

constexpr std::int64_t kSamples = 400;

struct Inputs {
  Evaluation now;
  PpoTargets then;
};

// Ratios and values on both sides of their limits, advantages of both signs.
Inputs random_inputs(at::ScalarType dtype) {
  torch::manual_seed(3);
  const auto make = [&](double scale) { return at::randn({kSamples}).mul(scale).to(dtype); };
  Inputs in{.now = {make(0.4), make(1), make(1)}, .then = {make(0.2), make(0.5), make(1), make(1)}};
  for (auto* t : {&in.now.log_prob, &in.now.entropy, &in.now.value}) t->requires_grad_();
  return in;
}

class PpoLossTest : public testing::TestWithParam<double> {};

TEST_P(PpoLossTest, LoopEqualsTensorsInDoublePrecision) {
  const PpoOptions options{
      .clip = 0.2, .value_clip = GetParam(), .value_coef = 0.7, .entropy_coef = 0.03};
  const auto loop = random_inputs(at::kFloat), tensors = random_inputs(at::kDouble);
  const auto a = ppo_loss(loop.now, loop.then, options),
             b = ppo_loss(tensors.now, tensors.then, options);
  ASSERT_EQ(b.total.scalar_type(), at::kDouble);
  EXPECT_NEAR(a.total.item<double>(), b.total.item<double>(), 1e-6);
  EXPECT_TRUE(at::allclose(a.parts.to(at::kDouble), b.parts, 1e-5, 1e-6)) << a.parts << b.parts;

  const auto gradients = [](const PpoLoss& loss, const Evaluation& of) {
    // Scaled, so that the gradient that comes in is not 1.
    return torch::autograd::grad({loss.total * 3}, {of.log_prob, of.entropy, of.value});
  };
  const auto ours = gradients(a, loop.now), theirs = gradients(b, tensors.now);
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i].to(at::kDouble), theirs[i], 1e-4, 1e-8)) << "input " << i;
}

TEST_P(PpoLossTest, NaNGoesThroughAsThroughTensors) {
  const PpoOptions options{
      .clip = 0.2, .value_clip = GetParam(), .value_coef = 0.7, .entropy_coef = 0.03};
  const auto each_of = [](Inputs& in) {
    return std::vector<at::Tensor>{in.now.log_prob,  in.now.entropy, in.now.value,
                                   in.then.log_prob, in.then.value,  in.then.advantage,
                                   in.then.target};
  };
  for (std::size_t place = 0; place < 7; ++place) {
    auto loop = random_inputs(at::kFloat), tensors = random_inputs(at::kDouble);
    for (auto* in : {&loop, &tensors}) {
      torch::NoGradGuard no_grad;
      each_of(*in)[place][5] = std::numeric_limits<double>::quiet_NaN();
    }
    const auto a = ppo_loss(loop.now, loop.then, options),
               b = ppo_loss(tensors.now, tensors.then, options);
    EXPECT_EQ(std::isnan(a.total.item<double>()), std::isnan(b.total.item<double>())) << place;
    if (place != 0) continue;
    const auto gradient = torch::autograd::grad({a.total}, {loop.now.log_prob})[0];
    EXPECT_TRUE(gradient[5].isnan().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(Values, PpoLossTest, testing::Values(0.0, 0.3),
                         [](const auto& which) { return which.param > 0 ? "Clipped" : "Free"; });

}  // namespace
}  // namespace shoal
