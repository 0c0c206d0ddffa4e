#include "src/agents/pg/categorical_evaluation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

namespace shoal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// d log p(action) / d logit_a = [a = action] - p_a, and d H / d logit_a = -p_a (log p_a + H).
class Loop : public torch::autograd::Function<Loop> {
 public:
  static tensor_list forward(AutogradContext* context, const at::Tensor& logits,
                             const at::Tensor& action) {
    const auto log_probs = at::empty(logits.sizes(), logits.options());
    const auto log_prob = at::empty({logits.size(0)}, logits.options()),
               entropy = at::empty_like(log_prob);
    const auto from = logits.contiguous();
    const auto n = logits.size(0), choices = logits.size(1);
    const auto* chosen = action.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < n; ++i) {
      const float* in = from.const_data_ptr<float>() + i * choices;
      float* out = log_probs.data_ptr<float>() + i * choices;
      const float top = *std::max_element(in, in + choices);
      float total = 0, h = 0;
      for (std::int64_t a = 0; a < choices; ++a) total += std::exp(in[a] - top);
      const float shift = top + std::log(total);
      for (std::int64_t a = 0; a < choices; ++a) {
        out[a] = in[a] - shift;
        h -= std::exp(out[a]) * out[a];
      }
      log_prob.data_ptr<float>()[i] = out[chosen[i]];
      entropy.data_ptr<float>()[i] = h;
    }
    context->save_for_backward({log_probs, entropy, action});
    return {log_prob, entropy};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradient) {
    const auto saved = context->get_saved_variables();
    const auto &log_probs = saved[0], &entropy = saved[1], &action = saved[2];
    const auto to_log_prob = gradient[0].contiguous(), to_entropy = gradient[1].contiguous();
    const auto to_logits = at::empty_like(log_probs);
    const auto n = log_probs.size(0), choices = log_probs.size(1);
    for (std::int64_t i = 0; i < n; ++i) {
      const float* lp = log_probs.const_data_ptr<float>() + i * choices;
      float* out = to_logits.data_ptr<float>() + i * choices;
      const float g = to_log_prob.const_data_ptr<float>()[i],
                  g_entropy = to_entropy.const_data_ptr<float>()[i];
      const float h = entropy.const_data_ptr<float>()[i];
      for (std::int64_t a = 0; a < choices; ++a)
        out[a] = -std::exp(lp[a]) * (g + g_entropy * (lp[a] + h));
      out[action.const_data_ptr<std::int64_t>()[i]] += g;
    }
    return {to_logits, {}};
  }
};

}  // namespace

CategoricalEvaluation evaluate_categorical(const at::Tensor& logits, const at::Tensor& action) {
  if (logits.is_cpu() && logits.scalar_type() == at::kFloat) {
    auto both = Loop::apply(logits, action.contiguous());
    return {both[0], both[1]};
  }
  const auto log_probs = at::log_softmax(logits, 1);
  return {log_probs.gather(1, action.view({-1, 1})).squeeze(1),
          -(log_probs.exp() * log_probs).sum(1)};
}

}  // namespace shoal
