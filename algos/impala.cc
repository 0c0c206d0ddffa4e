#include "shoal/algos/impala.h"

#include <torch/torch.h>

#include "algos/check_options.h"
#include "algos/learn_together.h"
#include "algos/optimizer.h"
#include "algos/steps_in_a_row.h"
#include "algos/totals.h"
#include "shoal/algos/returns.h"

namespace shoal {

namespace {

class Impala : public OnPolicyAlgo {
 public:
  Impala(ActorCritic& agent, const ImpalaOptions& options, Ranks& ranks)
      : agent_(agent),
        ranks_(ranks),
        options_(options),
        optimizer_(ranks, options.optimizer, agent.learnable(), options.optimizer_epsilon) {}

  Metrics update(const Samples& samples, const Progress& progress) override {
    const auto& o = options_;
    const double rate =
        o.anneal_learning_rate ? o.learning_rate * progress.remaining() : o.learning_rate;
    Totals totals({"policy_loss", "value_loss", "entropy", "kl", "rho", "grad_norm"});
    optimizer_.set_learning_rate(rate);
    totals.add(optimizer_.step(
        1, [&](std::size_t) { return loss_of(samples); }, o.max_grad_norm));
    observe_together(ranks_, agent_, samples);
    agent_.parameters_changed();
    auto metrics = totals.means();
    metrics.emplace_back("learning_rate", rate);
    return metrics;
  }

  NamedTensors state() override { return optimizer_.state(); }

 private:
  // All steps of a window, in order.
  Evaluation evaluate(const Samples& s) {
    EvaluateIn in{.observation = {},
                  .action = steps_in_a_row(s.action, s.T),
                  .mask = steps_in_a_row(s.mask, s.T),
                  .agent_info = steps_in_a_row(s.agent_info, s.T)};
    for (const auto& [name, o] : s.observed) in.observation.add(name, o.narrow(0, s.T * s.B));
    if (agent_.spec().state.empty()) return agent_.evaluate(in);
    in.previous_action = steps_in_a_row(s.previous_action, s.T);
    in.previous_reward = s.previous_reward.narrow(0, 0, s.T).flatten();
    in.first = s.first.narrow(0, 0, s.T).flatten();
    in.state = s.initial_state;
    in.time = s.T;
    return agent_.evaluate(in);
  }

  // Its parts are the first metrics.
  RankLoss loss_of(const Samples& s) {
    if (s.steps == 0) return {.total = {}, .parts = at::zeros({5}, s.reward.options())};
    const auto& o = options_;
    const auto now = evaluate(s);
    const auto log_ratio = now.log_prob.detach() - s.agent_info.at("log_prob").flatten();
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
  Ranks& ranks_;
  ImpalaOptions options_;
  SharedOptimizer optimizer_;
};

}  // namespace

std::unique_ptr<OnPolicyAlgo> make_impala(ActorCritic& agent, const ImpalaOptions& o,
                                          Ranks& ranks) {
  check_options("impala", o);
  require_no_batch_norm(ranks, 1, agent.parameters());
  return std::make_unique<Impala>(agent, o, ranks);
}

}  // namespace shoal
