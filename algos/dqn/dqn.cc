#include "shoal/algos/dqn.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "algos/builtin_algos.h"
#include "algos/captured_update.h"
#include "algos/dqn/dqn_loss.h"
#include "algos/dqn/q_learning.h"
#include "algos/loss_means.h"
#include "algos/option_groups.h"
#include "algos/replay_learning.h"
#include "shoal/core/error.h"

namespace shoal {
namespace {

class Dqn : public OffPolicyAlgo {
 public:
  Dqn(QAgent& agent, StepReplay& replay, const DqnOptions& options, ProcessGroup& ranks)
      : agent_(agent),
        ranks_(ranks),
        replay_(replay),
        options_(options),
        optimizer_(ranks, options.optimizer, agent.learnable(), options.optimizer_epsilon),
        updates_(at::zeros({}, at::kLong)),
        captured_(agent, ranks) {
    check_shares("dqn", options.batch, ranks, replay);
  }

  void explore(const Progress& progress, bool learning) override {
    if (!learning || !agent_.options().noisy)
      return set_epsilons(agent_.epsilon(), options_, progress, learning);
    agent_.epsilon().zero_();  // the noise explores
    agent_.draw_noise();
    agent_.parameters_changed();
  }

  Metrics update(const Progress& progress, int updates) override {
    require_updates(updates);
    const double beta = beta_at(options_, progress);
    const double learning_rate = options_.learning_rate * learning_rate_factor(options_, progress);
    LossMeans totals({"loss", "grad_norm", "td_error", "value"}, progress);
    for (int i = 0; i < updates; ++i) {
      const auto& batch = sample_together(ranks_, replay_, options_.batch, beta);
      const auto learned = learn(batch, learning_rate);
      totals.add(learned.numbers);
      if (replay_.prioritized()) {
        totals.check();
        replay_.update_priorities(batch.index, learned.errors + kLeastPriority);
      }
      auto& count = *updates_.data_ptr<std::int64_t>();
      if (++count % options_.target_interval == 0) agent_.update_target(options_.tau);
    }
    agent_.parameters_changed();
    return totals.means();
  }

  NamedTensors state() override {
    auto all = optimizer_.state();
    all.add("updates", updates_);
    return all;
  }

 private:
  // The returns of N actions, [N, atoms].
  static at::Tensor of(const at::Tensor& returns, const at::Tensor& action) {
    const auto index = action.view({-1, 1, 1}).expand({-1, 1, returns.size(2)});
    return returns.gather(1, index).squeeze(1);
  }

  // The inputs of an update, on the agent's device; on a GPU at fixed addresses.
  struct In {
    Observations observation, next_observation;
    at::Tensor action, reward, discount, weight, next_mask;
  };

  void take(const Transitions& batch) {
    captured_.begin();
    captured_.take(batch.observation, in_.observation);
    captured_.take(batch.next_observation, in_.next_observation);
    captured_.take(batch.action[0], in_.action);
    captured_.take(batch.reward, in_.reward);
    captured_.take(batch.discount, in_.discount);
    captured_.take(batch.weight, in_.weight);
    if (!batch.next_mask.empty()) captured_.take(batch.next_mask[0], in_.next_mask);
  }

  // The targets for the actions taken: [N], or [N, atoms].
  at::Tensor target(const In& in) {
    torch::NoGradGuard no_grad;
    const auto returns = agent_.target_returns(in.next_observation);
    auto values = options_.double_q ? agent_.values(in.next_observation) : agent_.means(returns);
    if (in.next_mask.defined()) values = of_legal(values, in.next_mask);
    const auto chosen = of(returns, values.argmax(1));
    switch (agent_.options().returns) {
      case ReturnKind::kMean:
        return in.reward + in.discount * chosen.squeeze(1);
      case ReturnKind::kCategorical:
        return project(chosen.softmax(1), in.reward, in.discount, agent_.support());
      case ReturnKind::kQuantile:
        return in.reward.unsqueeze(1) + in.discount.unsqueeze(1) * chosen;
    }
    return {};
  }

  StepLosses losses(const at::Tensor& wanted, const at::Tensor& returns) const {
    switch (agent_.options().returns) {
      case ReturnKind::kMean:
        return value_losses(wanted, returns.squeeze(1), options_.huber_delta);
      case ReturnKind::kCategorical:
        return categorical_losses(wanted, returns);
      case ReturnKind::kQuantile:
        return quantile_losses(wanted, returns, options_.huber_delta);
    }
    return {};
  }

  CapturedUpdate::Result learn(const Transitions& batch, double learning_rate) {
    take(batch);
    agent_.draw_noise();
    optimizer_.set_learning_rate(learning_rate);
    // Applies the new noise to the network.
    if (captured_.is_on_device()) agent_.before_rollout(/*greedy=*/false);
    return captured_.run([this] { return step(in_); });
  }

  CapturedUpdate::Result step(const In& in) {
    const auto wanted = target(in);
    const auto returns = of(agent_.returns(in.observation), in.action);
    const auto [each, error] = losses(wanted, returns);
    const auto loss = (in.weight * each).mean();
    const auto metrics =
        at::stack({loss.detach(), error.mean(), agent_.means(returns.detach()).mean()});
    const auto all = optimizer_.step(agent_.gradients(loss), metrics, options_.max_grad_norm);
    return {at::stack({all[0], all[3], all[1], all[2]}), error};
  }

  QAgent& agent_;
  ProcessGroup& ranks_;
  StepReplay& replay_;
  DqnOptions options_;
  DistributedOptimizer optimizer_;
  at::Tensor updates_;  // so far
  CapturedUpdate captured_;
  In in_;
};

}  // namespace

std::unique_ptr<OffPolicyAlgo> make_dqn(QAgent& agent, StepReplay& replay,
                                        const DqnOptions& options, ProcessGroup& ranks) {
  check_options(options);
  require_no_batch_norm(ranks, 1, agent.parameters());
  return std::make_unique<Dqn>(agent, replay, options, ranks);
}

OptionList describe(DqnOptions& o) {
  OptionList list("dqn");
  add_optimizer(list, o);
  add_anneal_learning_rate(list, o);
  list.add("batch", o.batch, "steps of one update", within(1, 1e6));
  list.add("double_q", o.double_q, "double Q-learning: the online network chooses the action");
  list.add("target_interval", o.target_interval, "updates between two moves of the target network",
           kCount);
  list.add("tau", o.tau,
           "fraction by which the target network moves to the online network; 1: a copy",
           within(1e-9, 1));
  list.add("huber_delta", o.huber_delta,
           "errors beyond it count linearly; 0: all are squared (with quantiles: all linear)");
  add_max_grad_norm(list, o);
  add_importance_weights(list, o);
  add_epsilons(list, o);
  return list;
}

namespace {

class DqnSpec : public BatchSpecOf<DqnSpec, DqnOptions> {
 public:
  std::string name() const override { return "dqn"; }
  std::string description() const override {
    return "Deep Q-learning, up to Rainbow (Mnih et al., 2015; Hessel et al., arXiv 1710.02298)";
  }

  OptionList options() override {
    auto list = describe(own_);
    list.append(describe(agent_));
    return list;
  }

  void check(const RunOptions& run) const override {
    OffPolicySpec::check(run);
    require(agent_.v_min < agent_.v_max, "dqn.v_min: found {}, expected less than dqn.v_max, {}",
            agent_.v_min, agent_.v_max);
  }

  std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const override {
    auto options = agent_;
    options.epsilons = run.off_policy.epsilon_each ? run.envs : 1;
    return make_q_agent(env, run.model, options, run.seed);
  }

  std::unique_ptr<OffPolicyAlgo> make(Agent& agent, Replay& replay, const RunOptions&,
                                      ProcessGroup& ranks) const override {
    return make_dqn(dynamic_cast<QAgent&>(agent), dynamic_cast<StepReplay&>(replay), own_, ranks);
  }

 private:
  QAgentOptions agent_;
};

}  // namespace

std::unique_ptr<AlgoSpec> dqn_spec() { return std::make_unique<DqnSpec>(); }

}  // namespace shoal
