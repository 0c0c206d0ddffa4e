#include "shoal/algos/a2c.h"

#include "algos/check_options.h"
#include "shoal/algos/ppo.h"

namespace shoal {

// PPO's first step on a window is A2C's: the probability ratio is 1, is not clipped, and its
// gradient is that of the log-probability (Huang et al., "A2C is a special case of PPO", arXiv
// 2205.09123).
std::unique_ptr<OnPolicyAlgo> make_a2c(ActorCritic& agent, const A2cOptions& o, Ranks& ranks) {
  check_options("a2c", o);
  require_at_least("a2c.accumulate", o.accumulate, 1);
  constexpr double kNeverClipped = 1e9;
  return make_ppo(agent,
                  {.learning_rate = o.learning_rate,
                   .optimizer = o.optimizer,
                   .optimizer_epsilon = o.optimizer_epsilon,
                   .discount = o.discount,
                   .gae_lambda = o.gae_lambda,
                   .epochs = 1,
                   .minibatches = 1,
                   .accumulate = o.accumulate,
                   .clip = kNeverClipped,
                   .value_coef = o.value_coef,
                   .entropy_coef = o.entropy_coef,
                   .max_grad_norm = o.max_grad_norm,
                   .normalize_advantage = o.normalize_advantage ? NormalizeAdvantage::kWindow
                                                                : NormalizeAdvantage::kNone,
                   .anneal_learning_rate = o.anneal_learning_rate},
                  ranks);
}

}  // namespace shoal
