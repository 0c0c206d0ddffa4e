#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "shoal/ipc/parameter_server.h"
#include "shoal/ipc/worker_group.h"

// A linear regression with known minimum loss, learned by processes that each know a part of it.
namespace shoal::parameter_server_learning_test {
namespace {

using namespace std::chrono_literals;
using Weights = std::array<float, 8>;

constexpr int kTrainers = 3;
constexpr unsigned kExamples = 64;  // per trainer
constexpr Weights kTrue{1, -2, 3, -1, 2, 0.5F, -3, 1.5F};
constexpr float kNoise = 0.5F;
constexpr double kLeast = kNoise * kNoise;

// Walsh functions: 64 values of 1 or -1, mutually orthogonal.
float walsh(unsigned number, unsigned example) {
  return std::popcount(number & example) % 2 == 0 ? 1.0F : -1.0F;
}

// All trainers see every fourth feature; the others are seen by one trainer each.
bool shared(std::size_t feature) { return feature % 4 == 3; }
float feature(int trainer, std::size_t k, unsigned example) {
  const bool sees = shared(k) || static_cast<int>(k % 4) == trainer;
  return sees ? walsh(static_cast<unsigned>(k + 1), example) : 0;
}

// Prediction minus target; the noise is orthogonal to all features, so it cannot be learned.
float error(int trainer, unsigned example, std::span<const float> weights) {
  float error = -kNoise * walsh(kExamples - 1, example);
  for (std::size_t k = 0; k < kTrue.size(); ++k)
    error += (weights[k] - kTrue[k]) * feature(trainer, k, example);
  return error;
}

double loss(std::span<const float> weights) {
  double sum = 0;
  for (int t = 0; t < kTrainers; ++t)
    for (unsigned e = 0; e < kExamples; ++e) sum += std::pow(error(t, e, weights), 2);
  return sum / (kTrainers * kExamples);
}

// Because features are orthogonal, each update multiplies a weight's error by 1 - rate * 2 * (the
// fraction of trainers that see its feature).
double loss_after(int updates, double rate) {
  double expected = kLeast;
  for (std::size_t k = 0; k < kTrue.size(); ++k) {
    const double seen = shared(k) ? 1 : 1.0 / kTrainers;
    expected += seen * std::pow(kTrue[k] * std::pow(1 - rate * 2 * seen, updates), 2);
  }
  return expected;
}

[[noreturn]] void learn(const ParameterServer& server, int number) {
  auto trainer = server.trainer(number);
  const auto gradient = trainer.gradient();
  do {
    std::ranges::fill(gradient, 0);
    for (unsigned e = 0; e < kExamples; ++e)
      for (std::size_t k = 0; k < kTrue.size(); ++k)
        gradient[k] +=
            2 * error(number, e, trainer.parameters()) * feature(number, k, e) / kExamples;
  } while (trainer.push());
  std::_Exit(0);
}

struct Learning {
  explicit Learning(bool asynchronous, float rate)
      : server(Weights{}, {.trainers = kTrainers, .asynchronous = asynchronous},
               [rate](std::size_t, std::span<float> weights, std::span<const float> gradient) {
                 for (std::size_t k = 0; k < gradient.size(); ++k) weights[k] -= rate * gradient[k];
               }),
        trainers(kTrainers, [this](int w, WorkerStatus) { learn(server, w); }) {}

  // Serves one batch; false if there is none.
  bool serve() {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (server.serve(100ms) == 0) {
      trainers.check();
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

  ParameterServer server;
  WorkerGroup trainers;
};

TEST(ParameterServerLearningTest, TogetherTheLossFallsAsGradientDescentHasIt) {
  constexpr float kRate = 0.3F;
  Learning learning(false, kRate);
  EXPECT_GT(loss(learning.server.parameters()), 30 * kLeast);
  for (int update = 1; update <= 60; ++update) {
    while (learning.server.updates() < update) ASSERT_TRUE(learning.serve());
    const double expected = loss_after(update, kRate);
    ASSERT_NEAR(loss(learning.server.parameters()), expected, 1e-5 * expected) << update;
  }
  EXPECT_NEAR(loss(learning.server.parameters()), kLeast, 1e-5);
}

// In any order of gradients: near the minimum all of them are near 0.
TEST(ParameterServerLearningTest, ApartTheyFindTheLeastLossAsWell) {
  Learning learning(true, 0.05F);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (loss(learning.server.parameters()) > kLeast + 1e-5) {
    ASSERT_TRUE(learning.serve());
    ASSERT_LT(std::chrono::steady_clock::now(), deadline)
        << "the loss is " << loss(learning.server.parameters());
  }
  for (std::size_t k = 0; k < kTrue.size(); ++k)
    EXPECT_NEAR(learning.server.parameters()[k], kTrue[k], 0.01) << k;
}

}  // namespace
}  // namespace shoal::parameter_server_learning_test
