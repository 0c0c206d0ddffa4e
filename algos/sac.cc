#include "shoal/algos/sac.h"

#include "algos/control_algo.h"
#include "shoal/core/error.h"

namespace shoal {

std::unique_ptr<OffPolicyAlgo> make_sac(ControlAgent& agent, StepReplay& replay,
                                        const SacOptions& o, Ranks& ranks) {
  require_policy("sac", agent, /*stochastic=*/true);
  require(o.alpha > 0, "sac.alpha is {}; it must be positive", o.alpha);
  return make_control_algo("sac", agent, replay,
                           {.update = {.critic_rate = o.learning_rate,
                                       .policy_rate = o.learning_rate,
                                       .tau = o.tau,
                                       .alpha = o.alpha,
                                       .seed = o.seed},
                            .batch = o.batch,
                            .precision = o.precision,
                            .anneal_learning_rate = o.anneal_learning_rate,
                            .beta_start = o.beta_start,
                            .beta_end = o.beta_end,
                            .learn_alpha = o.learn_alpha,
                            .target_entropy = o.target_entropy * static_cast<double>(agent.dims()),
                            .alpha_rate = o.learning_rate},
                           ranks);
}

}  // namespace shoal
