#include "shoal/algos/impala.h"

#include <ATen/ATen.h>

#include "algos/builtin_algos.h"
#include "algos/flatten_time.h"
#include "algos/loss_means.h"
#include "algos/observe_together.h"
#include "algos/option_groups.h"
#include "algos/pg/captured_steps.h"
#include "shoal/algos/returns.h"

namespace shoal {

namespace {

class Impala : public OnPolicyAlgo {
 public:
  Impala(ActorCritic& agent, const ImpalaOptions& options, ProcessGroup& ranks)
      : agent_(agent),
        ranks_(ranks),
        options_(options),
        optimizer_(ranks, options.optimizer, agent.learnable(), options.optimizer_epsilon) {}

  Metrics update(const Samples& samples, const Progress& progress) override {
    const auto& o = options_;
    const double rate =
        o.anneal_learning_rate ? o.learning_rate * progress.remaining() : o.learning_rate;
    LossMeans totals({"policy_loss", "value_loss", "entropy", "kl", "rho", "grad_norm"}, progress);
    optimizer_.set_learning_rate(rate);
    totals.add(learn(samples));
    observe_together(ranks_, agent_, samples);
    agent_.parameters_changed();
    auto metrics = totals.means();
    metrics.emplace_back("learning_rate", rate);
    return metrics;
  }

  NamedTensors state() override { return optimizer_.state(); }

 private:
  // One gradient step; returns its metrics.
  at::Tensor learn(const Samples& samples) {
    auto* const captured = captured_step(samples);
    if (captured == nullptr) return step(samples);
    captured->graph.run(samples.reward.device(),
                        [this, samples, to = captured->parts] { to.copy_(step(samples)); });
    return captured->parts.clone();
  }
  at::Tensor step(const Samples& samples) {
    return optimizer_.step(
        1, [&](std::size_t) { return loss_of(samples); }, options_.max_grad_norm);
  }

  // The captured step for a rollout at these addresses; null where the operations of a step vary.
  CapturedSteps::Step* captured_step(const Samples& s) {
    if (accelerator(s.reward.device()) == nullptr || ranks_.count() > 1 || s.steps < s.T * s.B)
      return nullptr;
    if (parameters_.have_changed(agent_.parameters())) captured_.forget();
    std::vector<const void*> addresses;
    add_addresses(s, addresses);
    // Unlike PPO's, these steps compute the targets, too.
    for (const auto& t :
         {s.reward, s.terminated, s.truncated, s.valid, s.final_value, s.bootstrap_value})
      addresses.push_back(t.const_data_ptr());
    auto* const step = captured_.find(s.T * s.B, addresses);
    if (step != nullptr && !step->parts.defined())
      step->parts = at::empty({kParts + 1}, s.reward.options());
    return step;
  }

  // All steps of a rollout, in order.
  Evaluation evaluate(const Samples& s) {
    EvaluateIn in{.observation = {},
                  .action = flatten_time_and_batch(s.action, s.T),
                  .mask = flatten_time_and_batch(s.mask, s.T),
                  .agent_info = flatten_time_and_batch(s.agent_info, s.T)};
    for (const auto& [name, o] : s.observed) in.observation.add(name, o.narrow(0, s.T * s.B));
    if (agent_.spec().state.empty()) return agent_.evaluate(in);
    in.previous_action = flatten_time_and_batch(s.previous_action, s.T);
    in.previous_reward = s.previous_reward.narrow(0, 0, s.T).flatten();
    in.is_first = s.is_first.narrow(0, 0, s.T).flatten();
    in.state = s.initial_state;
    in.time = s.T;
    return agent_.evaluate(in);
  }

  // Its metrics are the first kParts of learn().
  RankLoss loss_of(const Samples& s) {
    if (s.steps == 0) return {.total = {}, .metrics = at::zeros({kParts}, s.reward.options())};
    const auto& o = options_;
    const auto now = evaluate(s);
    // The ratio of an invalid step can overflow, and multiplying infinity by 0 gives NaN.
    const auto log_ratio = (now.log_prob.detach() - s.agent_info.at("log_prob").flatten())
                               .masked_fill(s.valid.flatten().logical_not(), 0);
    const auto corrected =
        vtrace(outcomes(s), now.value.detach().view({s.T, s.B}), log_ratio.view({s.T, s.B}),
               {o.discount, o.lambda, o.rho_bar, o.c_bar});
    const auto valid = s.valid.flatten().to(at::kFloat);
    const auto mean = [&](const at::Tensor& x) { return (x * valid).sum() / valid.sum(); };
    const auto gain = (corrected.rho * corrected.advantage).flatten();
    const auto policy = -mean(now.log_prob * gain);
    const auto value = 0.5 * mean((now.value - corrected.target.flatten()).square());
    const auto entropy = mean(now.entropy);
    const auto kl = mean(log_ratio.exp() - 1 - log_ratio);
    return {policy + o.value_coef * value - o.entropy_coef * entropy,
            at::stack({policy, value, entropy, kl, mean(corrected.rho.flatten())}).detach(),
            s.steps};
  }

  ActorCritic& agent_;
  ProcessGroup& ranks_;
  ImpalaOptions options_;
  DistributedOptimizer optimizer_;
  CapturedSteps captured_;
  TensorAddresses parameters_;  // the agent's, which the captured steps read

  static constexpr int kParts = 5;  // metrics of a loss
};

}  // namespace

std::unique_ptr<OnPolicyAlgo> make_impala(ActorCritic& agent, const ImpalaOptions& o,
                                          ProcessGroup& ranks) {
  check_options(o);
  require_no_batch_norm(ranks, 1, agent.parameters());
  return std::make_unique<Impala>(agent, o, ranks);
}

OptionList describe(ImpalaOptions& o) {
  OptionList list("impala");
  add_optimizer(list, o);
  list.add("discount", o.discount, "gamma", kShare);
  list.add("lambda", o.lambda, "lambda of V-trace", kShare);
  add_vtrace_clips(list, o);
  add_loss_weights(list, o);
  add_max_grad_norm(list, o);
  add_anneal_learning_rate(list, o);
  return list;
}

namespace {

class ImpalaSpec : public SpecOf<ImpalaSpec, OnPolicySpec, ImpalaOptions> {
 public:
  std::string name() const override { return "impala"; }
  std::string description() const override {
    return "IMPALA's actor-critic with V-trace (Espeholt et al., arXiv 1802.01561)";
  }
  double discount(const RunOptions&) const override { return own_.discount; }
  bool uses_ranks() const override { return true; }
  bool corrects_policy() const override { return true; }
  std::string annealed_to_0() const override {
    return own_.anneal_learning_rate ? "learning_rate" : "";
  }
  std::unique_ptr<OnPolicyAlgo> make(Agent& agent, const RunOptions&,
                                     ProcessGroup& ranks) const override {
    return make_impala(dynamic_cast<ActorCritic&>(agent), own_, ranks);
  }
};

}  // namespace

std::unique_ptr<AlgoSpec> impala_spec() { return std::make_unique<ImpalaSpec>(); }

}  // namespace shoal
