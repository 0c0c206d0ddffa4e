#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/agents/echo_model.h"

// How actions are drawn from given logits, by the loop over rows on the CPU and by the tensor
// operations of a device.
namespace shoal::sampling_test {
namespace {

constexpr std::int64_t kEnvs = 100, kTicks = 200;

// True: a network for acting, so the loop. False: tensor operations.
class SamplingTest : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<ActorCritic> make(std::int64_t choices) const {
    return make_echo_agent(choices, GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Both, SamplingTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Loop" : "Tensors"; });

// [ticks, envs] actions from the same logits every time.
at::Tensor draw(Agent& agent, const at::Tensor& logits, std::int64_t ticks,
                std::uint64_t seed = 11) {
  const auto rows = logits.expand({kEnvs, logits.size(0)}).contiguous();
  std::vector<at::Tensor> actions;
  for (std::int64_t tick = 0; tick < ticks; ++tick)
    actions.push_back(act(agent, acting_on(rows, {.seed = seed, .tick = tick})).action);
  return at::stack(actions);
}

double chi_square(const at::Tensor& outcomes, const at::Tensor& probabilities) {
  const auto expected = probabilities.to(at::kDouble) * outcomes.numel();
  const auto counts = at::bincount(outcomes.flatten(), {}, probabilities.size(0)).to(at::kDouble);
  return ((counts - expected).square() / expected).sum().item<double>();
}

TEST_P(SamplingTest, FrequenciesMatchTheProbabilities) {
  const auto probabilities = at::tensor({0.5, 0.02, 0.3, 0.15, 0.03}, at::kFloat);
  const auto agent = make(5);
  const auto actions = draw(*agent, probabilities.log() + 3, kTicks);
  EXPECT_LT(chi_square(actions, probabilities), 18.5) << "4 degrees of freedom: p < 0.001";

  // Neighbouring environments and successive ticks are independent: pairs are as likely
  // as their parts say.
  const auto pairs = at::outer(probabilities, probabilities).flatten();
  const auto across_envs = actions.narrow(1, 0, kEnvs - 1) * 5 + actions.narrow(1, 1, kEnvs - 1);
  const auto across_ticks = actions.narrow(0, 0, kTicks - 1) * 5 + actions.narrow(0, 1, kTicks - 1);
  EXPECT_LT(chi_square(across_envs, pairs), 51) << "24 degrees of freedom: p < 0.001";
  EXPECT_LT(chi_square(across_ticks, pairs), 51) << "24 degrees of freedom: p < 0.001";
}

TEST_P(SamplingTest, EachRowOfABatchMayBeOfAStepOfItsOwn) {
  const auto agent = make(4);
  const auto logits = at::zeros({4});
  const auto actions = draw(*agent, logits, 9, 11);  // [ticks, envs]
  std::vector<NoiseKey::Row> rows;
  for (std::int64_t i = 0; i < 60; ++i) rows.push_back({.env = i * 37 % kEnvs, .tick = i % 9});
  const auto n = static_cast<std::int64_t>(rows.size());
  const auto mixed =
      act(*agent, acting_on(at::zeros({n, 4}), {.seed = 11, .first_env = -1, .rows = rows})).action;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto [env, tick] = rows[static_cast<std::size_t>(i)];
    EXPECT_EQ(mixed[i].item<std::int64_t>(), actions[tick][env].item<std::int64_t>()) << i;
  }
}

TEST_P(SamplingTest, SeedAndTickDecideTheNoise) {
  const auto agent = make(4);
  const auto logits = at::zeros({4});
  const auto actions = draw(*agent, logits, 3, 11);
  EXPECT_TRUE(at::equal(actions, draw(*agent, logits, 3, 11)));
  EXPECT_FALSE(at::equal(actions, draw(*agent, logits, 3, 12)));
  EXPECT_FALSE(at::equal(actions[0], actions[1]));
  EXPECT_FALSE(at::equal(actions[1], actions[2]));
}

TEST_P(SamplingTest, GreedyPicksTheMostLikely) {
  torch::manual_seed(1);
  const auto agent = make(7);
  const auto logits = at::randn({50, 7});
  auto in = acting_on(logits);
  in.greedy = true;
  const auto acted = act(*agent, in);
  EXPECT_TRUE(at::equal(acted.action, logits.argmax(1)));
  const auto most_likely = std::get<0>(at::log_softmax(logits, 1).max(1));
  EXPECT_TRUE(at::allclose(acted.log_prob, most_likely, 0, 1e-5));
}

TEST_P(SamplingTest, ExtremeLogitsStayFinite) {
  const auto agent = make(3);
  const auto logits =
      at::tensor({-1e30, 0.0, 1e30, 500.0, 400.0, 300.0, -500.0, -500.0, -600.0}, at::kFloat);
  const auto acted = act(*agent, acting_on(logits.view({3, 3})));
  EXPECT_EQ(acted.action[0].item<std::int64_t>(), 2);
  EXPECT_EQ(acted.action[1].item<std::int64_t>(), 0);
  EXPECT_NE(acted.action[2].item<std::int64_t>(), 2);
  EXPECT_TRUE(at::isfinite(acted.log_prob).all().item<bool>());
}

TEST_P(SamplingTest, OneChoiceIsCertain) {
  const auto agent = make(1);
  const auto actions = draw(*agent, at::tensor({-7.0F}), 5);
  EXPECT_EQ(actions.abs().max().item<std::int64_t>(), 0);
  EXPECT_EQ(act(*agent, acting_on(at::full({2, 1}, -7.0F))).log_prob.abs().max().item<float>(), 0);
}

// The same logits give the same action on every device.
TEST(SamplingAgreementTest, LoopAndTensorsChooseTheSame) {
  torch::manual_seed(2);
  const auto loop = make_echo_agent(6, true), tensors = make_echo_agent(6, false);
  for (std::int64_t tick = 0; tick < 50; ++tick) {
    const auto in = acting_on(at::randn({64, 6}) * 2, {.seed = 3, .tick = tick, .first_env = 5});
    const auto a = act(*loop, in), b = act(*tensors, in);
    ASSERT_TRUE(at::equal(a.action, b.action)) << "tick " << tick;
    ASSERT_TRUE(at::allclose(a.log_prob, b.log_prob, 0, 1e-5));
    ASSERT_TRUE(at::allclose(a.value, b.value, 0, 1e-5));
  }
}

}  // namespace
}  // namespace shoal::sampling_test
