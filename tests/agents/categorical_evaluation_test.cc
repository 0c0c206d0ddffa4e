#include "src/agents/pg/categorical_evaluation.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/special_values.h"

namespace shoal {
namespace {

TEST(CategoricalEvaluationTest, LoopEqualsTensorsInDoublePrecision) {
  torch::manual_seed(2);
  constexpr std::int64_t kRows = 50, kChoices = 5;
  const auto values = at::randn({kRows, kChoices}).mul(3);
  values.select(1, 2).fill_(-1e9);  // the logit of an illegal action
  const auto action = at::arange(kRows, at::kLong).remainder(2);
  const auto weight = at::randn({2, kRows});

  const auto result = [&](at::ScalarType dtype) {
    const auto logits = values.to(dtype).requires_grad_();
    const auto [log_prob, entropy] = evaluate_categorical(logits, action);
    const auto sum = (log_prob * weight[0]).sum() + (entropy * weight[1]).sum();
    const auto gradient = torch::autograd::grad({sum}, {logits})[0];
    return std::vector<at::Tensor>{log_prob.detach(), entropy.detach(), gradient};
  };
  const auto loop = result(at::kFloat), tensors = result(at::kDouble);
  for (std::size_t i = 0; i < loop.size(); ++i)
    EXPECT_TRUE(at::allclose(loop[i].to(at::kDouble), tensors[i], 1e-5, 1e-5)) << i;
}

TEST(CategoricalEvaluationTest, SpecialValuesAreThoseOfTensors) {
  torch::manual_seed(3);
  const auto special = testing::special_values();
  const auto values = at::randn({special.size(0), 4});
  values.select(1, 2).copy_(special);
  const auto action = at::zeros({special.size(0)}, at::kLong);
  const auto loop = evaluate_categorical(values, action),
             tensors = evaluate_categorical(values.to(at::kDouble), action);
  EXPECT_TRUE(testing::alike(loop.log_prob, tensors.log_prob, 1e-5)) << loop.log_prob;
  EXPECT_TRUE(testing::alike(loop.entropy, tensors.entropy, 1e-5)) << loop.entropy;
}

}  // namespace
}  // namespace shoal
