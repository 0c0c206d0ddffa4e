#include "shoal/algos/r2d1.h"

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
#include "shoal/core/rng.h"
#include "shoal/models/actor_critic.h"

namespace shoal {
namespace {

// Rows [from, from + count) of sequences.
ModelIn rows_of(const Sequences& s, std::int64_t from, std::int64_t count) {
  const auto n = s.index.size(0);
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, from * n, count * n); };
  ModelIn in{.observation = {},
             .state = {},
             .is_first = part(s.is_first),
             .time = count,
             .previous_action = {},
             .previous_reward = part(s.previous_reward)};
  for (const auto& [name, observed] : s.observation)
    in.observation.add(name, observed.narrow(from * n, count * n));
  for (const auto& [name, action] : s.previous_action) in.previous_action.add(name, part(action));
  return in;
}

class R2d1 : public OffPolicyAlgo {
 public:
  R2d1(RecurrentQAgent& agent, SequenceReplay& replay, const R2d1Options& options,
       ProcessGroup& ranks)
      : agent_(agent),
        ranks_(ranks),
        replay_(replay),
        options_(options),
        optimizer_(ranks, options.optimizer, agent.learnable(), options.optimizer_epsilon),
        updates_(at::zeros({}, at::kLong)),
        captured_(agent, ranks) {}

  void explore(const Progress& progress, bool learning) override {
    set_epsilons(agent_.epsilon(), options_, progress, learning);
  }

  Metrics update(const Progress& progress, int updates) override {
    require_updates(updates);
    const double learning_rate = options_.learning_rate * learning_rate_factor(options_, progress);
    LossMeans totals({"loss", "grad_norm", "td_error", "value", "priority"}, progress);
    for (int i = 0; i < updates; ++i) {
      const auto& batch = sample_together(ranks_, replay_, options_.batch, options_.beta);
      take(batch);
      optimizer_.set_learning_rate(learning_rate);
      const auto learned = captured_.run([this] { return step(in_); });
      totals.add(learned.numbers);
      if (replay_.prioritized()) {
        totals.check();
        replay_.update_priorities(batch.index, learned.errors);
      }
      auto& count = *updates_.data_ptr<std::int64_t>();
      if (++count % options_.target_interval == 0) agent_.update_target(1);
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
  void take(const Sequences& batch) {
    in_.rows = batch.rows;
    in_.burn_in = batch.burn_in;
    in_.length = batch.length;
    captured_.begin();
    captured_.take(batch.observation, in_.observation);
    for (const auto field :
         {&Sequences::mask, &Sequences::previous_action, &Sequences::state, &Sequences::action})
      captured_.take(batch.*field, in_.*field);
    for (const auto field : {&Sequences::previous_reward, &Sequences::is_first, &Sequences::reward,
                             &Sequences::discount, &Sequences::next, &Sequences::valid,
                             &Sequences::weight, &Sequences::index})
      captured_.take(batch.*field, in_.*field);
  }

  // Computes both networks' states after the burn-in, without gradients.
  void burn_in(const Sequences& s, NamedTensors& online, NamedTensors& target) {
    torch::NoGradGuard no_grad;
    online = target = s.state;
    if (s.burn_in == 0) return;
    auto in = rows_of(s, 0, s.burn_in);
    in.state = online;
    online = agent_.values(in).state;
    target = agent_.target_values(in).state;
  }

  // The target of each step: h(R + discount * h^-1(v)), where v is the target network's value of
  // the online network's greedy action. online, target: action values of both networks after the
  // burn-in, [rows * N, actions].
  at::Tensor wanted(const Sequences& s, const at::Tensor& online, const at::Tensor& target) const {
    torch::NoGradGuard no_grad;
    const auto n = s.index.size(0);
    const auto next = at::arange(s.length * n, s.next.options()).add(s.next * n);  // row of v
    auto choices = online.detach();
    if (!s.mask.empty())
      choices = of_legal(choices, s.mask[0].narrow(0, s.burn_in * n, online.size(0)));
    const auto value = target.gather(1, choices.argmax(1, /*keepdim=*/true)).squeeze(1);
    const auto follows = unscale_value(value.index_select(0, next), options_.value_scale);
    return rescale_value(s.reward + s.discount * follows, options_.value_scale);
  }

  // One gradient step from the batch on the agent's device. Result::errors are the priorities.
  CapturedUpdate::Result step(const Sequences& s) {
    const auto n = s.index.size(0), learned = s.length * n;
    auto in = rows_of(s, s.burn_in, s.rows - s.burn_in);
    NamedTensors target_state;
    burn_in(s, in.state, target_state);
    const auto online = agent_.values(in).values;
    in.state = std::move(target_state);
    const auto target = agent_.target_values(in).values;
    const auto value = online.narrow(0, 0, learned).gather(1, s.action[0].unsqueeze(1)).squeeze(1);
    const auto [each, error] = value_losses(wanted(s, online, target), value, options_.huber_delta);

    // The loss is the weighted mean over sequences of the mean over their valid steps.
    const auto valid = s.valid.to(at::kFloat).view({s.length, n});
    const auto steps = valid.sum(0).clamp_min(1);
    const auto of_sequence = (each.view({s.length, n}) * valid).sum(0) / steps;
    const auto loss = (s.weight * of_sequence).mean();
    const auto errors = error.view({s.length, n}) * valid;
    const auto mean = errors.sum(0) / steps;
    const auto priority = options_.priority_eta * errors.amax(0) +
                          (1 - options_.priority_eta) * mean + kLeastPriority;
    const auto mean_value =
        (value.detach().view({s.length, n}) * valid).sum() / valid.sum().clamp_min(1);
    const auto metrics = at::stack({loss.detach(), mean.mean(), mean_value, priority.mean()});
    const auto all = optimizer_.step(agent_.gradients(loss), metrics, options_.max_grad_norm);
    return {at::stack({all[0], all[4], all[1], all[2], all[3]}), priority};
  }

  RecurrentQAgent& agent_;
  ProcessGroup& ranks_;
  SequenceReplay& replay_;
  R2d1Options options_;
  DistributedOptimizer optimizer_;
  at::Tensor updates_;  // so far
  CapturedUpdate captured_;
  Sequences in_;
};

}  // namespace

at::Tensor rescale_value(const at::Tensor& x, double epsilon) {
  return x.sign() * ((x.abs() + 1).sqrt() - 1) + epsilon * x;
}

// In double precision, because it subtracts two nearly equal numbers.
at::Tensor unscale_value(const at::Tensor& y, double epsilon) {
  const auto size = y.abs().to(at::kDouble);
  const auto root = ((1 + 4 * epsilon * (size + 1 + epsilon)).sqrt() - 1) / (2 * epsilon);
  return y.sign() * (root.square() - 1).to(y.scalar_type());
}

std::unique_ptr<OffPolicyAlgo> make_r2d1(RecurrentQAgent& agent, SequenceReplay& replay,
                                         const R2d1Options& options, ProcessGroup& ranks) {
  check_options(options);
  require_no_batch_norm(ranks, 1, agent.parameters());
  require(options.batch % ranks.count() == 0,
          "r2d1.batch: found {}, expected a multiple of the number of ranks, {}", options.batch,
          ranks.count());
  return std::make_unique<R2d1>(agent, replay, options, ranks);
}

OptionList describe(R2d1Options& o) {
  OptionList list("r2d1");
  add_optimizer(list, o);
  add_anneal_learning_rate(list, o);
  list.add("batch", o.batch, "sequences of one update", within(1, 1e6));
  list.add("target_interval", o.target_interval, "updates between two copies to the target network",
           kCount);
  list.add("huber_delta", o.huber_delta, "errors beyond it count linearly; 0: all are squared");
  add_max_grad_norm(list, o);
  list.add("value_scale", o.value_scale, "epsilon of the rescaling of values", above_0(1));
  list.add(
      "priority_eta", o.priority_eta,
      "weight of a sequence's largest error in its priority; 1 - eta is that of the mean error",
      kShare);
  list.add("beta", o.beta, "exponent (beta) of the importance weights", kShare);
  add_epsilons(list, o);
  return list;
}

namespace {

class R2d1Spec : public BatchSpecOf<R2d1Spec, R2d1Options> {
 public:
  std::string name() const override { return "r2d1"; }
  std::string description() const override {
    return "R2D2, recurrent Q-learning from replayed sequences (Kapturowski et al., 2019)";
  }
  std::int64_t batch_steps() const override { return own_.batch * (burn_in_ + length_); }

  OptionList options() override {
    auto list = describe(own_);
    OptionList more("r2d1");
    more.add("burn_in", burn_in_, "steps of each sequence that only refresh the recurrent state",
             within(0, 1e6));
    more.add("length", length_, "steps of each sequence, after the burn-in, to learn from",
             within(1, 1e6));
    more.add("dueling", agent_.dueling, "dueling network: state value plus advantages");
    list.append(std::move(more));
    return list;
  }

  void check(const RunOptions& run) const override {
    require(run.model.memory != MemoryKind::kNone,
            "model.memory: found none, but algo 'r2d1' needs a recurrent cell: choose lstm or gru");
    require(run.replay.slices == 0,
            "replay.slices: found {}, expected 0: algo 'r2d1' has one slice for each rank",
            run.replay.slices);
    require(2 * run.horizon <= length_,
            "sampler.horizon: found {}, expected at most half of r2d1.length, {}: each rollout "
            "begins a sequence, in which the final observation of a truncated episode takes the "
            "row of a step, and steps beyond its end would never be learned from",
            run.horizon, length_);
    check_replay(run);
  }

  std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const override {
    auto options = agent_;
    options.epsilons = run.off_policy.epsilon_each ? run.envs : 1;
    return make_recurrent_q_agent(env, run.model, options, run.seed);
  }

  std::size_t replay_bytes(const EnvSpec& env, const Agent& agent,
                           const RunOptions& run) const override {
    return SequenceReplay::bytes(env, agent.spec().state, run.envs, sequences(run, 1, 0));
  }

  std::unique_ptr<Replay> make_replay(const EnvSpec& env, const Agent& agent, const RunOptions& run,
                                      ProcessGroup& ranks,
                                      const ReplayMemory* memory) const override {
    if (memory == nullptr)
      return std::make_unique<SequenceReplay>(env, agent.spec().state, run.envs / ranks.count(),
                                              sequences(run, ranks.count(), ranks.rank()));
    return std::make_unique<SequenceReplay>(env, agent.spec().state, run.envs, sequences(run, 1, 0),
                                            ranks, *memory);
  }

  std::unique_ptr<OffPolicyAlgo> make(Agent& agent, Replay& replay, const RunOptions&,
                                      ProcessGroup& ranks) const override {
    return make_r2d1(dynamic_cast<RecurrentQAgent&>(agent), dynamic_cast<SequenceReplay&>(replay),
                     own_, ranks);
  }

 private:
  // A sequence begins with every rollout.
  SequenceReplayOptions sequences(const RunOptions& run, int ranks, int rank) const {
    const auto& r = run.replay;
    return {.size = r.size / ranks,
            .burn_in = burn_in_,
            .length = length_,
            .interval = run.horizon,
            .n_step = r.n_step,
            .discount = r.discount,
            .prioritized = r.prioritized,
            .alpha = r.alpha,
            .seed = slice_seed(run.seed, rank),
            .largest_batch = own_.batch / ranks};
  }

  RecurrentQAgentOptions agent_;
  std::int64_t burn_in_ = 40, length_ = 80;
};

}  // namespace

std::unique_ptr<AlgoSpec> r2d1_spec() { return std::make_unique<R2d1Spec>(); }

}  // namespace shoal
