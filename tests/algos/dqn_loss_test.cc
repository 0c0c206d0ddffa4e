#include "algos/dqn/dqn_loss.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace shoal::dqn_loss_test {
namespace {

constexpr std::int64_t kSteps = 32, kAtoms = 11;

// Return by return, as the paper writes it.
at::Tensor project_by_hand(const at::Tensor& probability, const at::Tensor& reward,
                           const at::Tensor& discount, double low, double high) {
  auto out = at::zeros({kSteps, kAtoms}, at::kDouble);
  const double gap = (high - low) / (kAtoms - 1);
  for (std::int64_t i = 0; i < kSteps; ++i) {
    for (std::int64_t j = 0; j < kAtoms; ++j) {
      const double wanted = reward[i].item<float>() +
                            discount[i].item<float>() * (low + gap * static_cast<double>(j));
      const double b = (std::clamp(wanted, low, high) - low) / gap;
      for (std::int64_t k = 0; k < kAtoms; ++k)
        out[i][k] += probability[i][j].item<float>() *
                     std::max(0.0, 1 - std::abs(b - static_cast<double>(k)));
    }
  }
  return out;
}

TEST(DqnLossTest, ProjectsReturnsOntoTheirNeighbours) {
  torch::manual_seed(1);
  const auto probability = at::randn({kSteps, kAtoms}).softmax(1);
  auto reward = 3 * at::randn({kSteps}), discount = at::full({kSteps}, 0.9F);
  reward[0] = 2;  // as after a termination: all probability on one return, or between two
  discount.narrow(0, 0, 8).zero_();
  reward[1] = -7;
  reward[2] = 100;
  const auto support = at::linspace(-5, 5, kAtoms);
  const auto got = project(probability, reward, discount, support).to(at::kDouble);
  const auto want = project_by_hand(probability, reward, discount, -5, 5);
  EXPECT_LT((got - want).abs().max().item<double>(), 1e-5);
  EXPECT_LT((got.sum(1) - 1).abs().max().item<double>(), 1e-5);
  EXPECT_NEAR(got[0][7].item<double>(), 1, 1e-6);
  EXPECT_NEAR(got[1][0].item<double>(), 1, 1e-6);
  EXPECT_NEAR(got[2][kAtoms - 1].item<double>(), 1, 1e-6);
}

TEST(DqnLossTest, CategoricalLossIsCrossEntropyAndItsErrorTheDivergence) {
  torch::manual_seed(2);
  auto wanted = at::randn({kSteps, kAtoms}).softmax(1);
  wanted[0].zero_();
  wanted[0][3] = 1;
  const auto logits = at::randn({kSteps, kAtoms}).requires_grad_();
  const auto [loss, error] = categorical_losses(wanted, logits);
  for (std::int64_t i = 0; i < kSteps; ++i) {
    double cross = 0, divergence = 0, total = 0;
    for (std::int64_t k = 0; k < kAtoms; ++k) total += std::exp(logits[i][k].item<double>());
    for (std::int64_t k = 0; k < kAtoms; ++k) {
      const double p = wanted[i][k].item<float>();
      const double q = std::exp(logits[i][k].item<double>()) / total;
      cross -= p * std::log(q);
      if (p > 0) divergence += p * std::log(p / q);
    }
    EXPECT_NEAR(loss[i].item<double>(), cross, 1e-4);
    EXPECT_NEAR(error[i].item<double>(), divergence, 1e-4);
  }
  EXPECT_FALSE(error.requires_grad());
  const auto gradient = torch::autograd::grad({loss.sum()}, {logits})[0];
  EXPECT_TRUE(at::allclose(gradient, logits.softmax(1) - wanted, 1e-4, 1e-5));
}

TEST(DqnLossTest, QuantileLossByHand) {
  torch::manual_seed(3);
  for (const double huber_delta : {0.0, 1.0, 0.5}) {
    const auto wanted = 2 * at::randn({kSteps, 5}), quantiles = 2 * at::randn({kSteps, kAtoms});
    const auto loss = quantile_losses(wanted, quantiles, huber_delta).loss;
    for (std::int64_t i = 0; i < kSteps; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < kAtoms; ++k) {
        for (std::int64_t j = 0; j < 5; ++j) {
          const double u = wanted[i][j].item<double>() - quantiles[i][k].item<double>();
          const double share = (static_cast<double>(k) + 0.5) / kAtoms;
          double size = std::abs(u);
          if (huber_delta > 0)
            size =
                size <= huber_delta ? 0.5 * u * u / huber_delta : std::abs(u) - 0.5 * huber_delta;
          sum += std::abs(share - (u < 0 ? 1 : 0)) * size / 5;
        }
      }
      EXPECT_NEAR(loss[i].item<double>(), sum, 1e-4) << huber_delta;
    }
  }
}

TEST(DqnLossTest, QuantileRegressionFindsTheQuantiles) {
  auto quantiles = at::zeros({1, 4}).requires_grad_();
  torch::optim::Adam adam({quantiles}, 0.05);
  const auto wanted = at::arange(1, 101, at::kFloat).unsqueeze(0) / 10;
  for (int i = 0; i < 1500; ++i) {
    adam.zero_grad();
    quantile_losses(wanted, quantiles, 0.01).loss.sum().backward();
    adam.step();
  }
  EXPECT_TRUE(
      at::allclose(quantiles.detach()[0], at::tensor({1.25F, 3.75F, 6.25F, 8.75F}), 0, 0.15))
      << quantiles;
}

}  // namespace
}  // namespace shoal::dqn_loss_test
