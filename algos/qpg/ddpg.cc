#include "shoal/algos/ddpg.h"

#include "algos/builtin_algos.h"
#include "algos/option_groups.h"
#include "algos/qpg/qpg_algo.h"

namespace shoal {

std::unique_ptr<OffPolicyAlgo> make_ddpg(QpgAgent& agent, StepReplay& replay, const DdpgOptions& o,
                                         ProcessGroup& ranks) {
  check_options(o);
  require_policy("ddpg", agent, /*stochastic=*/false);
  return make_qpg_algo("ddpg", agent, replay,
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

OptionList describe(DdpgOptions& o) {
  OptionList list("ddpg");
  list.add("critic_rate", o.critic_rate, "learning rate of the critic", kRate);
  list.add("policy_rate", o.policy_rate, "learning rate of the policy", kRate);
  add_qpg_update(list, o);
  list.add("exploration_noise", o.exploration_noise,
           "deviation of the noise on actions, in half-widths of their bounds");
  add_importance_weights(list, o);
  return list;
}

namespace {

class DdpgSpec : public QpgSpecOf<DdpgSpec, DdpgOptions> {
 public:
  std::string name() const override { return "ddpg"; }
  std::string description() const override {
    return "Deep deterministic policy gradient (Lillicrap et al., arXiv 1509.02971)";
  }

  std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const override {
    return make_qpg_agent(env, run.model, {.stochastic = false, .critics = 1}, run.seed);
  }

  std::unique_ptr<OffPolicyAlgo> make(Agent& agent, Replay& replay, const RunOptions&,
                                      ProcessGroup& ranks) const override {
    return make_ddpg(dynamic_cast<QpgAgent&>(agent), dynamic_cast<StepReplay&>(replay), own_,
                     ranks);
  }
};

}  // namespace

std::unique_ptr<AlgoSpec> ddpg_spec() { return std::make_unique<DdpgSpec>(); }

}  // namespace shoal
