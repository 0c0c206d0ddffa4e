#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/core/rng.h"
#include "tests/agents/echo_model.h"

namespace shoal::masked_test {
namespace {

constexpr std::int64_t kChoices = 6;

// True: the loop over rows on the CPU. False: the tensor operations of a device.
class MaskedTest : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<ActorCritic> make(std::int64_t choices) const {
    return make_echo_agent(choices, GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Both, MaskedTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Loop" : "Tensors"; });

ActIn masked(const at::Tensor& logits, const at::Tensor& mask, const NoiseKey& noise = {}) {
  auto in = acting_on(logits, noise);
  in.mask = mask;
  return in;
}

// Half of the actions are legal, and at least one of each row.
at::Tensor random_mask(std::int64_t n) {
  auto mask = at::rand({n, kChoices}).lt(0.5);
  return mask.scatter_(1, at::randint(0, kChoices, {n, 1}, at::kLong), true);
}

// log_softmax over the legal actions alone, -infinity elsewhere.
at::Tensor legal_log_probs(const at::Tensor& logits, const at::Tensor& mask) {
  return at::log_softmax(logits.masked_fill(mask.logical_not(), -INFINITY), 1);
}

at::Tensor taken(const at::Tensor& t, const at::Tensor& action) {
  return t.gather(1, action.unsqueeze(1)).squeeze(1);
}

TEST_P(MaskedTest, IllegalActionsAreNeverChosen) {
  torch::manual_seed(1);
  const auto agent = make(kChoices);
  auto chosen = at::zeros({64, kChoices}, at::kLong);
  const auto mask = random_mask(64);
  for (std::int64_t tick = 0; tick < 200; ++tick) {
    auto in = masked(at::randn({64, kChoices}), mask, {.seed = 1, .tick = tick});
    in.greedy = tick % 10 == 0;
    const auto acted = act(*agent, in);
    ASSERT_TRUE(taken(mask, acted.action).all().item<bool>()) << "tick " << tick;
    const auto expected = taken(legal_log_probs(in.observation[0].data, mask), acted.action);
    ASSERT_TRUE(at::allclose(acted.log_prob, expected, 0, 1e-5)) << "tick " << tick;
    chosen.scatter_add_(1, acted.action.unsqueeze(1), at::ones({64, 1}, at::kLong));
  }
  EXPECT_TRUE(at::equal(chosen.gt(0), mask)) << "a legal action was never chosen";
}

TEST_P(MaskedTest, GreedyPicksTheMostLikelyLegalAction) {
  torch::manual_seed(2);
  const auto agent = make(kChoices);
  const auto logits = at::randn({64, kChoices}), mask = random_mask(64);
  auto in = masked(logits, mask);
  in.greedy = true;
  EXPECT_TRUE(at::equal(act(*agent, in).action, legal_log_probs(logits, mask).argmax(1)));
}

TEST_P(MaskedTest, EvaluateGivesIllegalActionsNoMass) {
  torch::manual_seed(3);
  const auto agent = make(kChoices);
  const auto logits = at::randn({20, kChoices}), mask = random_mask(20);
  const auto probabilities = legal_log_probs(logits, mask).exp();
  auto mass = at::zeros({20});
  Evaluation evaluated;
  for (std::int64_t a = 0; a < kChoices; ++a) {
    evaluated = evaluate(*agent, logits, at::full({20}, a, at::kLong), mask);
    const auto p = evaluated.log_prob.detach().exp();
    EXPECT_TRUE(at::allclose(p, probabilities.select(1, a), 0, 1e-6)) << "action " << a;
    mass += p;
  }
  EXPECT_TRUE(at::allclose(mass, at::ones({20}), 0, 1e-5));
  const auto entropy = -at::xlogy(probabilities, probabilities).sum(1);
  EXPECT_TRUE(at::allclose(evaluated.entropy, entropy, 0, 1e-5));
}

TEST_P(MaskedTest, EvaluateAgreesWithActAndHasFiniteGradients) {
  torch::manual_seed(4);
  const auto agent = make(kChoices);
  const auto logits = at::randn({20, kChoices}), mask = random_mask(20);
  const auto acted = act(*agent, masked(logits, mask));
  const auto evaluated = evaluate(*agent, logits, acted.action, mask);
  EXPECT_TRUE(at::allclose(evaluated.log_prob, acted.log_prob, 0, 1e-5));
  (evaluated.log_prob.sum() + evaluated.entropy.sum()).backward();
  EXPECT_TRUE(at::isfinite(agent->learnable()[0].grad()).all().item<bool>());
}

// Probabilities in float32 may sum to less than the noise, which must not select an illegal
// action.
TEST_P(MaskedTest, RoundingFallsToALegalAction) {
  constexpr std::int64_t kMany = 3000, kLegal = kMany - 5, kRows = 200;
  const NoiseKey kLargest{.seed = 1, .tick = 8418514};
  ASSERT_EQ(to_unit_float(philox(kLargest.seed, kLargest.tick, 0)[0]), 1 - 0x1p-24F);
  const auto agent = make(kMany);
  torch::manual_seed(5);
  const auto logits = at::randn({kRows, kMany});
  const auto mask = at::arange(kMany, at::kLong).lt(kLegal).unsqueeze(0);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto acted = act(*agent, masked(logits.narrow(0, row, 1), mask, kLargest));
    ASSERT_LT(acted.action.item<std::int64_t>(), kLegal) << "row " << row;
  }
}

}  // namespace
}  // namespace shoal::masked_test
