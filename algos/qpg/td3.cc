#include "shoal/algos/td3.h"

#include "algos/builtin_algos.h"
#include "algos/option_groups.h"
#include "algos/qpg/qpg_algo.h"

namespace shoal {

std::unique_ptr<OffPolicyAlgo> make_td3(QpgAgent& agent, StepReplay& replay, const Td3Options& o,
                                        ProcessGroup& ranks) {
  check_options(o);
  require_policy("td3", agent, /*stochastic=*/false);
  return make_qpg_algo("td3", agent, replay,
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

OptionList describe(Td3Options& o) {
  OptionList list("td3");
  list.add("critic_rate", o.critic_rate, "learning rate of the critics", kRate);
  list.add("policy_rate", o.policy_rate, "learning rate of the policy", kRate);
  add_qpg_update(list, o);
  list.add("policy_interval", o.policy_interval,
           "updates between two of the policy and the targets", kCount);
  list.add("target_noise", o.target_noise,
           "deviation of the noise on the target's actions, in half-widths of their bounds");
  list.add("target_clip", o.target_clip, "that noise is clipped to this, in half-widths");
  list.add("exploration_noise", o.exploration_noise,
           "deviation of the noise on actions, in half-widths of their bounds");
  add_importance_weights(list, o);
  return list;
}

namespace {

class Td3Spec : public QpgSpecOf<Td3Spec, Td3Options> {
 public:
  std::string name() const override { return "td3"; }
  std::string description() const override {
    return "Twin delayed deep deterministic policy gradient (Fujimoto et al., arXiv 1802.09477)";
  }

  std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const override {
    return make_qpg_agent(env, run.model, {.stochastic = false, .critics = 2}, run.seed);
  }

  std::unique_ptr<OffPolicyAlgo> make(Agent& agent, Replay& replay, const RunOptions& run,
                                      ProcessGroup& ranks) const override {
    auto options = own_;
    options.seed = run.seed;
    return make_td3(dynamic_cast<QpgAgent&>(agent), dynamic_cast<StepReplay&>(replay), options,
                    ranks);
  }
};

}  // namespace

std::unique_ptr<AlgoSpec> td3_spec() { return std::make_unique<Td3Spec>(); }

}  // namespace shoal
