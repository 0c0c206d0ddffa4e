#include "shoal/algos/td3.h"

#include "algos/control_algo.h"

namespace shoal {

std::unique_ptr<OffPolicyAlgo> make_td3(ControlAgent& agent, StepReplay& replay,
                                        const Td3Options& o, Ranks& ranks) {
  require_policy("td3", agent, /*stochastic=*/false);
  return make_control_algo("td3", agent, replay,
                           {.update = {.critic_rate = o.critic_rate,
                                       .policy_rate = o.policy_rate,
                                       .tau = o.tau,
                                       .target_noise = o.target_noise,
                                       .target_clip = o.target_clip,
                                       .least_value = false,
                                       .seed = o.seed},
                            .batch = o.batch,
                            .precision = o.precision,
                            .anneal_learning_rate = o.anneal_learning_rate,
                            .policy_interval = o.policy_interval,
                            .exploration = o.exploration_noise,
                            .beta_start = o.beta_start,
                            .beta_end = o.beta_end},
                           ranks);
}

}  // namespace shoal
