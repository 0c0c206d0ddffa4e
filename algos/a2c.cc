#include "shoal/algos/a2c.h"

#include "shoal/algos/ppo.h"
#include "shoal/core/error.h"

namespace shoal {

// PPO's first step on a window is A2C's: the probability ratio is 1, is not clipped, and its
// gradient is that of the log-probability (Huang et al., "A2C is a special case of PPO", arXiv
// 2205.09123).
std::unique_ptr<OnPolicyAlgo> make_a2c(ActorCritic& agent, const A2cOptions& o) {
  require(o.learning_rate > 0, "a2c.learning_rate is {}; it must be positive", o.learning_rate);
  require(o.discount >= 0 && o.discount <= 1, "a2c.discount is {}; it must lie in [0, 1]",
          o.discount);
  require(o.gae_lambda >= 0 && o.gae_lambda <= 1, "a2c.gae_lambda is {}; it must lie in [0, 1]",
          o.gae_lambda);
  constexpr double kNeverClipped = 1e9;
  return make_ppo(agent, {.learning_rate = o.learning_rate,
                          .adam_epsilon = o.adam_epsilon,
                          .discount = o.discount,
                          .gae_lambda = o.gae_lambda,
                          .epochs = 1,
                          .minibatches = 1,
                          .clip = kNeverClipped,
                          .value_coef = o.value_coef,
                          .entropy_coef = o.entropy_coef,
                          .max_grad_norm = o.max_grad_norm,
                          .normalize_advantage = o.normalize_advantage,
                          .anneal_learning_rate = o.anneal_learning_rate});
}

}  // namespace shoal
