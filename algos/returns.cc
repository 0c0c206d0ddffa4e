#include "shoal/algos/returns.h"

#include <torch/torch.h>

namespace shoal {

Advantages generalized_advantages(const Samples& s, const at::Tensor& value, double discount,
                                  double lambda) {
  torch::NoGradGuard no_grad;
  const auto over = s.terminated.logical_or(s.truncated);
  // What follows each step: the next row, unless the episode ended there. final_value is 0 where it
  // terminated.
  auto next = at::cat({value.narrow(0, 1, s.T - 1), s.bootstrap_value.unsqueeze(0)});
  next = at::where(over, s.final_value, next).masked_fill_(s.terminated, 0);
  const auto delta = s.reward + discount * next - value;
  const auto carry = over.logical_not().to(at::kFloat).mul_(discount * lambda);

  auto advantage = at::empty_like(delta);
  auto running = at::zeros_like(s.bootstrap_value);
  for (auto t = s.T - 1; t >= 0; --t) {
    running = at::addcmul(delta[t], carry[t], running);
    advantage[t].copy_(running);
  }
  return {advantage, advantage + value};
}

}  // namespace shoal
