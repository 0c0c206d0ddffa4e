#include "shoal/algos/sac.h"

#include "algos/builtin_algos.h"
#include "algos/option_groups.h"
#include "algos/qpg/qpg_algo.h"

namespace shoal {

std::unique_ptr<OffPolicyAlgo> make_sac(QpgAgent& agent, StepReplay& replay, const SacOptions& o,
                                        ProcessGroup& ranks) {
  check_options(o);
  require_policy("sac", agent, /*stochastic=*/true);
  return make_qpg_algo("sac", agent, replay,
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

OptionList describe(SacOptions& o) {
  OptionList list("sac");
  list.add("learning_rate", o.learning_rate, "learning rate of critics, policy and temperature",
           kRate);
  add_qpg_update(list, o);
  list.add("alpha", o.alpha, "temperature, initially if it is learned", above_0());
  list.add("learn_alpha", o.learn_alpha, "the temperature is learned");
  list.add("target_entropy", o.target_entropy,
           "entropy that the temperature aims at, for each number of the action", kAnySign);
  add_importance_weights(list, o);
  return list;
}

namespace {

class SacSpec : public QpgSpecOf<SacSpec, SacOptions> {
 public:
  std::string name() const override { return "sac"; }
  std::string description() const override {
    return "Soft actor-critic with a learned temperature (Haarnoja et al., arXiv 1812.05905)";
  }

  std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const override {
    return make_qpg_agent(env, run.model, {.stochastic = true, .critics = 2}, run.seed);
  }

  std::unique_ptr<OffPolicyAlgo> make(Agent& agent, Replay& replay, const RunOptions& run,
                                      ProcessGroup& ranks) const override {
    auto options = own_;
    options.seed = run.seed;
    return make_sac(dynamic_cast<QpgAgent&>(agent), dynamic_cast<StepReplay&>(replay), options,
                    ranks);
  }
};

}  // namespace

std::unique_ptr<AlgoSpec> sac_spec() { return std::make_unique<SacSpec>(); }

}  // namespace shoal
