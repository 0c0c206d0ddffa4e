#include "shoal/algos/a2c.h"

#include "algos/builtin_algos.h"
#include "algos/option_groups.h"
#include "shoal/algos/ppo.h"
#include "src/core/divide_up.h"

namespace shoal {

// PPO's first step on a rollout is A2C's: the probability ratio is 1, is not clipped, and its
// gradient is that of the log-probability (Huang et al., "A2C is a special case of PPO", arXiv
// 2205.09123). With an asynchronous sampler the policy may be some versions older than the
// learner's, and the ratio weighs each step.
std::unique_ptr<OnPolicyAlgo> make_a2c(ActorCritic& agent, const A2cOptions& o,
                                       ProcessGroup& ranks) {
  check_options(o);
  constexpr double kNeverClipped = 1e9;
  return make_ppo(agent,
                  {.learning_rate = o.learning_rate,
                   .optimizer = o.optimizer,
                   .optimizer_epsilon = o.optimizer_epsilon,
                   .discount = o.discount,
                   .gae_lambda = o.gae_lambda,
                   .epochs = 1,
                   .minibatches = 1,
                   .gradient_accumulation = o.gradient_accumulation,
                   .clip = kNeverClipped,
                   .value_coef = o.value_coef,
                   .entropy_coef = o.entropy_coef,
                   .max_grad_norm = o.max_grad_norm,
                   .normalize_advantage = o.normalize_advantage ? NormalizeAdvantage::kRollout
                                                                : NormalizeAdvantage::kNone,
                   .anneal_learning_rate = o.anneal_learning_rate},
                  ranks);
}

OptionList describe(A2cOptions& o) {
  OptionList list("a2c");
  add_optimizer(list, o);
  list.add("discount", o.discount, "gamma", kShare);
  list.add("gae_lambda", o.gae_lambda, "lambda of generalized advantage estimation", kShare);
  list.add("gradient_accumulation", o.gradient_accumulation,
           "pieces in which the gradient of a rollout is computed, to save memory", within(1, 1e6));
  add_loss_weights(list, o);
  add_max_grad_norm(list, o);
  list.add("normalize_advantage", o.normalize_advantage,
           "normalize advantages to mean 0 and standard deviation 1 over each rollout");
  add_anneal_learning_rate(list, o);
  return list;
}

namespace {

class A2cSpec : public SpecOf<A2cSpec, OnPolicySpec, A2cOptions> {
 public:
  std::string name() const override { return "a2c"; }
  std::string description() const override {
    return "Advantage actor-critic, the synchronous A3C (Mnih et al., arXiv 1602.01783)";
  }
  double discount(const RunOptions&) const override { return own_.discount; }
  bool uses_ranks() const override { return true; }
  std::int64_t steps_at_once(const RunOptions& run) const override {
    return divide_up(OnPolicySpec::steps_at_once(run), own_.gradient_accumulation);
  }
  std::string annealed_to_0() const override {
    return own_.anneal_learning_rate ? "learning_rate" : "";
  }
  std::unique_ptr<OnPolicyAlgo> make(Agent& agent, const RunOptions&,
                                     ProcessGroup& ranks) const override {
    return make_a2c(dynamic_cast<ActorCritic&>(agent), own_, ranks);
  }
};

}  // namespace

std::unique_ptr<AlgoSpec> a2c_spec() { return std::make_unique<A2cSpec>(); }

}  // namespace shoal
