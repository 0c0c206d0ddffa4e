#include "shoal/algos/ddpg.h"

#include "algos/control_algo.h"

namespace shoal {

std::unique_ptr<OffPolicyAlgo> make_ddpg(ControlAgent& agent, StepReplay& replay,
                                         const DdpgOptions& o, Ranks& ranks) {
  require_policy("ddpg", agent, /*stochastic=*/false);
  return make_control_algo("ddpg", agent, replay,
                           {.update = {.critic_rate = o.critic_rate,
                                       .policy_rate = o.policy_rate,
                                       .tau = o.tau,
                                       .least_value = false},
                            .batch = o.batch,
                            .precision = o.precision,
                            .anneal_learning_rate = o.anneal_learning_rate,
                            .exploration = o.exploration_noise,
                            .beta_start = o.beta_start,
                            .beta_end = o.beta_end},
                           ranks);
}

}  // namespace shoal
