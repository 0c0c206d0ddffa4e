#include "shoal/algos/dqn.h"

#include <torch/torch.h>

#include "algos/check_options.h"
#include "algos/dqn_loss.h"
#include "algos/optimizer.h"
#include "algos/q_learning.h"
#include "algos/replay_learning.h"
#include "algos/totals.h"
#include "shoal/core/error.h"
#include "src/device/recorded.h"

namespace shoal {
namespace {

void check(const DqnOptions& o) {
  check_q_options("dqn", o);
  check_betas("dqn", o);
  require(o.target_share > 0 && o.target_share <= 1,
          "dqn.target_share is {}; it must lie in (0, 1]", o.target_share);
}

class Dqn : public OffPolicyAlgo {
 public:
  Dqn(QAgent& agent, StepReplay& replay, const DqnOptions& options, Ranks& ranks)
      : agent_(agent),
        ranks_(ranks),
        replay_(replay),
        options_(options),
        optimizer_(options.optimizer, agent.learnable(), options.optimizer_epsilon),
        updates_(at::zeros({}, at::kLong)) {
    check_shares("dqn", options.batch, ranks, replay);
  }

  void explore(const Progress& progress, bool learning) override {
    set_epsilons(agent_.epsilon(), options_, progress, learning);
    if (!learning || !agent_.options().noisy) return;
    agent_.draw_noise();
    agent_.parameters_changed();
  }

  Metrics update(const Progress& progress, int updates) override {
    require_updates(updates);
    const double beta = beta_at(options_, progress);
    const double learning_rate = options_.learning_rate * pace_at(options_, progress);
    Totals totals({"loss", "grad_norm", "td_error", "value"});
    for (int i = 0; i < updates; ++i) {
      const auto& batch = sample_together(ranks_, replay_, options_.batch, beta);
      totals.add(learn(batch, learning_rate));
      if (replay_.prioritized()) replay_.update_priorities(batch.index, error_ + kLeastPriority);
      auto& count = *updates_.data_ptr<std::int64_t>();
      if (++count % options_.target_interval == 0) agent_.update_target(options_.target_share);
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
  // Of N actions the returns, [N, atoms].
  static at::Tensor of(const at::Tensor& returns, const at::Tensor& action) {
    const auto index = action.view({-1, 1, 1}).expand({-1, 1, returns.size(2)});
    return returns.gather(1, index).squeeze(1);
  }

  // What an update reads of a batch, on the agent's device; elsewhere than on the host always in
  // the same memory.
  struct In {
    Observations observation, next_observation;
    at::Tensor action, reward, discount, weight, next_mask;
  };

  const In& take(const Transitions& batch) {
    const auto device = agent_.device();
    in_.observation = taken(batch.observation, in_.observation, device);
    in_.next_observation = taken(batch.next_observation, in_.next_observation, device);
    in_.action = taken(batch.action[0], in_.action, device);
    in_.reward = taken(batch.reward, in_.reward, device);
    in_.discount = taken(batch.discount, in_.discount, device);
    in_.weight = taken(batch.weight, in_.weight, device);
    if (!batch.next_mask.empty()) in_.next_mask = taken(batch.next_mask[0], in_.next_mask, device);
    return in_;
  }
  at::Tensor taken(const at::Tensor& x, const at::Tensor& place, at::Device device) {
    if (is_host(device)) return x;
    if (place.defined() && place.sizes() == x.sizes() && place.device() == device)
      return place.copy_(x, /*non_blocking=*/true);
    recorded_.forget();
    return x.to(device, /*non_blocking=*/false, /*copy=*/true);
  }
  Observations taken(const Observations& all, const Observations& places, at::Device device) {
    if (is_host(device)) return all;
    Observations out;
    for (const auto& [name, o] : all)
      out.add(name, {taken(o.dense(/*pinned=*/device.is_cuda()),
                           places.contains(name) ? places.at(name).data : at::Tensor(), device),
                     {}});
    return out;
  }

  // What is to be learned of the actions taken: [N], or [N, atoms].
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
        return value_losses(wanted, returns.squeeze(1), options_.huber);
      case ReturnKind::kCategorical:
        return categorical_losses(wanted, returns);
      case ReturnKind::kQuantile:
        return quantile_losses(wanted, returns, options_.huber);
    }
    return {};
  }

  // One step down the gradient; its numbers. Leaves the errors in error_.
  at::Tensor learn(const Transitions& batch, double learning_rate) {
    const auto& in = take(batch);
    agent_.draw_noise();
    optimizer_.set_learning_rate(learning_rate);
    // Other ranks' gradients go through the host.
    if (is_host(agent_.device()) || ranks_.count() > 1) return step(in);
    agent_.before_window(/*greedy=*/false);  // puts the new noise into the network
    if (parameters_.have_changed(agent_.parameters())) recorded_.forget();
    recorded_.run(agent_.device(), [this, in] {
      const auto numbers = step(in);
      if (!numbers_.defined()) numbers_ = at::empty_like(numbers);
      if (!errors_.defined() || errors_.sizes() != error_.sizes()) errors_ = at::empty_like(error_);
      numbers_.copy_(numbers);
      errors_.copy_(error_);
    });
    error_ = errors_;
    return numbers_.clone();
  }

  at::Tensor step(const In& in) {
    const auto wanted = target(in);
    const auto returns = of(agent_.returns(in.observation), in.action);
    const auto [each, error] = losses(wanted, returns);
    const auto loss = (in.weight * each).mean();
    auto gradients = agent_.gradients(loss);
    gradients.push_back(
        at::stack({loss.detach(), error.mean(), agent_.means(returns.detach()).mean()}));
    average(ranks_, gradients, 1);
    const auto parts = gradients.back();
    gradients.pop_back();
    const auto norm = clip_gradients(gradients, options_.max_grad_norm);
    optimizer_.step(gradients);
    error_ = error;
    return at::stack({parts[0], norm.squeeze(), parts[1], parts[2]});
  }

  QAgent& agent_;
  Ranks& ranks_;
  StepReplay& replay_;
  DqnOptions options_;
  Optimizer optimizer_;
  at::Tensor updates_;  // so far
  at::Tensor error_;    // [batch], of the last update
  In in_;
  Places parameters_;            // of the agent's, which the recording reads
  Recorded recorded_;            // an update on a device
  at::Tensor numbers_, errors_;  // what it leaves
};

}  // namespace

std::unique_ptr<OffPolicyAlgo> make_dqn(QAgent& agent, StepReplay& replay,
                                        const DqnOptions& options, Ranks& ranks) {
  check(options);
  require_no_batch_norm(ranks, 1, agent.parameters());
  return std::make_unique<Dqn>(agent, replay, options, ranks);
}

}  // namespace shoal
