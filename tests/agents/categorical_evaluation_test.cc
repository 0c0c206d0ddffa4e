#include "src/agents/categorical_evaluation.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace shoal {
namespace {

TEST(CategoricalEvaluationTest, LoopEqualsTensorsInDoublePrecision) {
  torch::manual_seed(2);
  constexpr std::int64_t kRows = 50, kChoices = 5;
  const auto values = at::randn({kRows, kChoices}).mul(3);
  values.select(1, 2).fill_(-1e9);  // what an illegal action gets
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

}  // namespace
}  // namespace shoal
