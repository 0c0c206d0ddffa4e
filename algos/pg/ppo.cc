#include "shoal/algos/ppo.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "algos/builtin_algos.h"
#include "algos/flatten_time.h"
#include "algos/loss_means.h"
#include "algos/observe_together.h"
#include "algos/option_groups.h"
#include "algos/pg/captured_steps.h"
#include "algos/pg/minibatches.h"
#include "algos/pg/ppo_loss.h"
#include "shoal/algos/returns.h"
#include "shoal/core/error.h"
#include "src/compute/accelerator.h"
#include "src/core/divide_up.h"

namespace shoal {

namespace {

void check(const PpoOptions& o) {
  check_options(o);
  require(!o.vtrace || o.normalize_advantage != NormalizeAdvantage::kRollout,
          "ppo.normalize_advantage: found rollout, but ppo.vtrace recomputes advantages for each "
          "minibatch; choose minibatch or none");
  require(
      o.gradient_accumulation == 1 || !o.vtrace ||
          o.normalize_advantage == NormalizeAdvantage::kNone,
      "ppo.gradient_accumulation: found {}, but ppo.vtrace computes advantages piece by piece, and "
      "ppo.normalize_advantage needs the whole minibatch; set ppo.normalize_advantage to none, or "
      "ppo.gradient_accumulation to 1",
      o.gradient_accumulation);
}

// A rollout flattened to N = T * B steps.
struct Flat {
  NamedTensors action, mask, agent_info;
  at::Tensor valid;  // [steps]: indices of the valid steps
  at::Tensor advantage, target;
  // For agents with state.
  NamedTensors previous_action;
  at::Tensor previous_reward, is_first;
};

// Normalizes numbers to mean 0 and standard deviation 1 over all ranks.
class Normalization {
 public:
  Normalization() = default;  // the identity
  // A single number has no deviation and is left unchanged.
  Normalization(ProcessGroup& ranks, const at::Tensor& numbers) {
    if (ranks.count() > 1) {
      const auto m = moments(ranks, numbers);
      if (m.count < 2) return;
      mean_ = at::scalar_tensor(m.mean, at::kDouble);
      deviation_ = at::scalar_tensor(std::sqrt(m.variance), at::kDouble);
    } else if (numbers.numel() > 1) {
      std::tie(deviation_, mean_) = at::std_mean(numbers);
    }
  }
  at::Tensor operator()(const at::Tensor& x) const {
    constexpr double kLeast = 1e-8;
    return mean_.defined() ? (x - mean_) / (deviation_ + kLeast) : x;
  }

 private:
  at::Tensor mean_, deviation_;  // []
};

class Ppo : public OnPolicyAlgo {
 public:
  Ppo(ActorCritic& agent, const PpoOptions& options, ProcessGroup& ranks)
      : agent_(agent),
        ranks_(ranks),
        options_(options),
        optimizer_(ranks, options.optimizer, agent.learnable(), options.optimizer_epsilon),
        updates_(at::zeros({}, at::kLong)),
        minibatches_({.count = options.minibatches,
                      .slices = slices_of(options, ranks),
                      .first_slice = ranks.rank() * slices_of(options, ranks),
                      .seed = options.seed,
                      .whole_sequences = remembers() || options.vtrace}) {}

  Metrics update(const Samples& samples, const Progress& progress) override {
    minibatches_.begin(samples, static_cast<std::uint64_t>(updates_.item<std::int64_t>()));
    const auto flat = prepare(samples);
    const auto options = annealed(progress.remaining());

    updates_ += 1;
    optimizer_.set_learning_rate(options.learning_rate);
    if (captures(samples) && parameters_.have_changed(agent_.parameters())) captured_.forget();
    LossMeans totals({"policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "grad_norm"},
                     progress);  // as PpoLoss::parts
    int epoch = 0;
    for (; epoch < options_.epochs; ++epoch) {
      at::Tensor kl;
      for (const auto& minibatch : minibatches_.shuffled(samples))
        kl = learn(samples, flat, minibatch, options, totals);
      if (options_.target_kl > 0 && kl.item<double>() > options_.target_kl) break;
    }
    observe_together(ranks_, agent_, samples);
    agent_.parameters_changed();
    auto metrics = totals.means();
    const auto judged = options_.vtrace ? corrected() : recorded(flat);
    metrics.emplace_back("explained_variance",
                         explained_variance(ranks_, judged.target, judged.value));
    metrics.emplace_back("epochs", std::min(epoch + 1, options_.epochs));
    metrics.emplace_back("learning_rate", options.learning_rate);
    return metrics;
  }

  NamedTensors state() override {
    auto all = optimizer_.state();
    all.add("updates", updates_);
    return all;
  }

 private:
  bool remembers() const { return !agent_.spec().state.empty(); }
  // Slices of this rank.
  static int slices_of(const PpoOptions& o, const ProcessGroup& ranks) {
    const int all = o.slices == 0 ? ranks.count() : o.slices;
    require(all % ranks.count() == 0,
            "ppo.slices: found {}, expected a multiple of the number of ranks, {}", all,
            ranks.count());
    return all / ranks.count();
  }

  PpoOptions annealed(double remaining) const {
    auto o = options_;
    if (o.anneal_learning_rate) o.learning_rate *= remaining;
    if (!o.anneal_clip) return o;
    o.clip *= remaining;
    // Never 0, which would mean no clipping.
    if (o.value_clip > 0) o.value_clip = std::max(o.value_clip * remaining, 1e-12);
    return o;
  }

  Flat prepare(const Samples& s) {
    const auto valid = s.valid.flatten().nonzero().flatten();
    Advantages gae;  // unused with V-trace, which computes them for each minibatch
    if (!options_.vtrace)
      gae = generalized_advantages(s, s.agent_info.at("value"), options_.discount,
                                   options_.gae_lambda);
    auto advantage = options_.vtrace ? at::Tensor() : gae.advantage.flatten();
    if (options_.normalize_advantage == NormalizeAdvantage::kRollout)
      advantage = Normalization(ranks_, advantage.index_select(0, valid))(advantage);
    auto target = options_.vtrace ? at::Tensor() : gae.target.flatten();
    if (captures(s)) {
      keep(advantage_, advantage, advantage.device());
      keep(target_, target, target.device());
      advantage = advantage_;
      target = target_;
    }
    return {.action = flatten_time_and_batch(s.action, s.T),
            .mask = flatten_time_and_batch(s.mask, s.T),
            .agent_info = flatten_time_and_batch(s.agent_info, s.T),
            .valid = valid,
            .advantage = advantage,
            .target = target,
            .previous_action = flatten_time_and_batch(s.previous_action, s.T),
            .previous_reward =
                remembers() ? s.previous_reward.narrow(0, 0, s.T).flatten() : at::Tensor(),
            .is_first = remembers() ? s.is_first.narrow(0, 0, s.T).flatten() : at::Tensor()};
  }

  // Evaluates a minibatch by the current policy.
  Evaluation evaluate(const Samples& samples, const Flat& flat, const Minibatch& minibatch,
                      const NamedTensors& then) {
    const auto& rows = minibatch.rows;
    EvaluateIn in{.observation = select(samples.observed, rows),
                  .action = select(flat.action, rows),
                  .mask = select(flat.mask, rows),
                  .agent_info = then};
    if (!remembers()) return agent_.evaluate(in);
    in.previous_action = select(flat.previous_action, rows);
    in.previous_reward = flat.previous_reward.index_select(0, rows);
    in.is_first = flat.is_first.index_select(0, rows);
    in.state = select(samples.initial_state, minibatch.envs);
    in.time = samples.T;
    return agent_.evaluate(in);
  }

  PpoTargets targets(const Samples& samples, const Flat& flat, const Minibatch& minibatch,
                     const NamedTensors& then, const Evaluation& now) const {
    PpoTargets out{
        .log_prob = then.at("log_prob"), .value = then.at("value"), .advantage = {}, .target = {}};
    if (options_.vtrace) {
      const auto as_rollout = [&](const at::Tensor& x) { return x.detach().view({samples.T, -1}); };
      const auto corrected =
          vtrace(select(outcomes(samples), minibatch.envs), as_rollout(now.value),
                 as_rollout(now.log_prob - out.log_prob),
                 {options_.discount, options_.gae_lambda, options_.rho_bar, options_.c_bar});
      out.advantage = corrected.advantage.flatten();
      out.target = corrected.target.flatten();
    } else {
      out.advantage = flat.advantage.index_select(0, minibatch.rows);
      out.target = flat.target.index_select(0, minibatch.rows);
    }
    return out;
  }

  // Indices into `rows` of the valid steps.
  static at::Tensor valid_of(const Samples& samples, const at::Tensor& rows) {
    return samples.valid.flatten().index_select(0, rows).nonzero().flatten();
  }

  // Drops the invalid steps of whole sequences.
  static void keep_valid(const Samples& samples, const at::Tensor& rows, Evaluation& now,
                         PpoTargets& then) {
    if (samples.steps == samples.T * samples.B) return;
    const auto valid = valid_of(samples, rows);
    for (auto* numbers : {&now.log_prob, &now.entropy, &now.value, &then.log_prob, &then.value,
                          &then.advantage, &then.target})
      *numbers = numbers->index_select(0, valid);
  }

  // Whether gradient steps can be captured: their operations do not vary.
  bool captures(const Samples& s) const {
    return accelerator(s.reward.device()) != nullptr && ranks_.count() == 1 &&
           options_.gradient_accumulation == 1 && !options_.vtrace && !options_.anneal_clip &&
           s.steps == s.T * s.B;
  }

  CapturedSteps::Step* captured_step(const Samples& samples, const Flat& flat,
                                     const Minibatch& minibatch) {
    if (!captures(samples) || minibatch.rows.numel() == 0) return nullptr;
    std::vector<const void*> addresses{flat.advantage.const_data_ptr(),
                                       flat.target.const_data_ptr()};
    add_addresses(samples, addresses);
    auto* const step = captured_.find(minibatch.rows.numel(), addresses);
    if (step == nullptr) return nullptr;
    keep(step->rows, minibatch.rows, minibatch.rows.device());
    if (minibatch.envs.defined()) keep(step->envs, minibatch.envs, minibatch.envs.device());
    if (!step->parts.defined()) step->parts = at::empty({kParts + 1}, samples.reward.options());
    return step;
  }

  // One gradient step; returns the mean KL divergence from the policy that acted.
  at::Tensor learn(const Samples& samples, const Flat& flat, const Minibatch& minibatch,
                   const PpoOptions& options, LossMeans& totals) {
    at::Tensor parts;
    if (auto* const captured = captured_step(samples, flat, minibatch)) {
      const Minibatch there{captured->rows, captured->envs};
      captured->graph.run(samples.reward.device(),
                          [this, samples, flat, there, options, to = captured->parts] {
                            to.copy_(step(samples, flat, there, options));
                          });
      parts = captured->parts.clone();
    } else {
      parts = step(samples, flat, minibatch, options);
    }
    totals.add(parts);
    return parts.defined() ? parts[kKl] : at::zeros({});
  }

  // Returns PpoLoss::parts and the norm of the gradient; undefined if no rank has any steps.
  at::Tensor step(const Samples& samples, const Flat& flat, const Minibatch& minibatch,
                  const PpoOptions& options) {
    Normalization normalization;
    if (options.normalize_advantage == NormalizeAdvantage::kMinibatch && !options.vtrace) {
      auto rows = minibatch.rows;
      if (minibatch.envs.defined() && samples.steps < samples.T * samples.B)
        rows = rows.index_select(0, valid_of(samples, rows));
      normalization = {ranks_, flat.advantage.index_select(0, rows)};
    }
    corrected_.clear();
    const auto pieces = minibatch.pieces(samples, options_.gradient_accumulation);
    return optimizer_.step(
        pieces.size(),
        [&](std::size_t i) { return loss_of(samples, flat, pieces[i], normalization, options); },
        options.max_grad_norm);
  }

  RankLoss loss_of(const Samples& samples, const Flat& flat, const Minibatch& minibatch,
                   const Normalization& normalization, const PpoOptions& options) {
    // An empty minibatch still takes part in the exchanges: other ranks may have steps.
    const bool any = minibatch.rows.numel() > 0;
    Evaluation now;
    PpoTargets then{.log_prob = {}, .value = {}, .advantage = at::empty({0}), .target = {}};
    if (any) {
      const auto recorded = select(flat.agent_info, minibatch.rows);
      now = evaluate(samples, flat, minibatch, recorded);
      then = targets(samples, flat, minibatch, recorded, now);
      if (minibatch.envs.defined()) keep_valid(samples, minibatch.rows, now, then);
      if (options_.vtrace) corrected_.push_back(then);
    }
    if (options.vtrace && options.normalize_advantage != NormalizeAdvantage::kNone)
      then.advantage = Normalization(ranks_, then.advantage)(then.advantage);
    else
      then.advantage = normalization(then.advantage);
    if (!any) return {.total = {}, .metrics = at::zeros({kParts}, samples.reward.options())};
    const auto loss = ppo_loss(now, then, options);
    return {loss.total, loss.parts, then.advantage.numel()};
  }

  // Targets and values of the last minibatch.
  PpoTargets corrected() const {
    const auto joined = [&](at::Tensor PpoTargets::*which) {
      std::vector<at::Tensor> all;
      for (const auto& piece : corrected_) all.push_back(piece.*which);
      return all.empty() ? at::empty({0}) : at::cat(all);
    };
    return {.log_prob = {},
            .value = joined(&PpoTargets::value),
            .advantage = {},
            .target = joined(&PpoTargets::target)};
  }

  // Targets and recorded values of the whole rollout.
  static PpoTargets recorded(const Flat& flat) {
    return {.log_prob = {},
            .value = flat.agent_info.at("value").index_select(0, flat.valid),
            .advantage = {},
            .target = flat.target.index_select(0, flat.valid)};
  }

  // Fraction of the variance of the targets that the values explain: 1 is perfect, below 0 is worse
  // than a constant.
  static double explained_variance(ProcessGroup& ranks, const at::Tensor& target,
                                   const at::Tensor& value) {
    const auto variance = moments(ranks, target).variance;
    const auto rest = moments(ranks, target - value).variance;
    return variance > 0 ? 1 - rest / variance : 0;
  }

  ActorCritic& agent_;
  ProcessGroup& ranks_;
  PpoOptions options_;
  DistributedOptimizer optimizer_;
  at::Tensor updates_;  // [] int64, on the CPU
  Minibatches minibatches_;
  std::vector<PpoTargets> corrected_;  // by V-trace, of the pieces of the last minibatch
  at::Tensor advantage_, target_;      // at fixed addresses, for captured steps
  CapturedSteps captured_;
  TensorAddresses parameters_;  // the agent's, which the captured steps read

  static constexpr int kKl = 3, kParts = 5;  // index of the KL in PpoLoss::parts, and their size
};

}  // namespace

std::unique_ptr<OnPolicyAlgo> make_ppo(ActorCritic& agent, const PpoOptions& options,
                                       ProcessGroup& ranks) {
  check(options);
  require_no_batch_norm(ranks, options.gradient_accumulation, agent.parameters());
  return std::make_unique<Ppo>(agent, options, ranks);
}

OptionList describe(PpoOptions& p) {
  OptionList list("ppo");
  add_optimizer(list, p);
  list.add("discount", p.discount, "gamma", kShare);
  list.add("gae_lambda", p.gae_lambda, "lambda of generalized advantage estimation, or of V-trace",
           kShare);
  list.add("epochs", p.epochs, "passes over a rollout", within(1, 1e6));
  list.add("minibatches", p.minibatches, "updates in each epoch", within(1, kMostNumber));
  list.add("gradient_accumulation", p.gradient_accumulation,
           "pieces in which the gradient of a minibatch is computed, to save memory",
           within(1, 1e6));
  list.add("clip", p.clip, "the probability ratio is clipped to [1 - clip, 1 + clip]", above_0());
  list.add("value_clip", p.value_clip,
           "largest distance of the new value from the old; 0: not clipped");
  add_loss_weights(list, p);
  add_max_grad_norm(list, p);
  list.add("normalize_advantage", p.normalize_advantage,
           "steps over which advantages are normalized: none | rollout | minibatch");
  add_anneal_learning_rate(list, p);
  list.add("anneal_clip", p.anneal_clip,
           "lower clip and value_clip linearly to 0 over the schedule");
  list.add("vtrace", p.vtrace,
           "V-trace, for rollouts of older policies (with sampler.asynchronous: APPO)");
  add_vtrace_clips(list, p);
  list.add("target_kl", p.target_kl,
           "end the epochs of a rollout once the KL of an epoch's last minibatch exceeds this; 0: "
           "never");
  list.add(
      "slices", p.slices,
      "slices of environments; every minibatch takes equal parts of each; 0: one for each rank",
      within(0, 1e6));
  return list;
}

namespace {

class PpoSpec : public SpecOf<PpoSpec, OnPolicySpec, PpoOptions> {
 public:
  std::string name() const override { return "ppo"; }
  std::string description() const override {
    return "Proximal policy optimization (Schulman et al., arXiv 1707.06347)";
  }
  double discount(const RunOptions&) const override { return own_.discount; }
  bool uses_ranks() const override { return true; }
  std::string annealed_to_0() const override {
    return own_.anneal_learning_rate ? "learning_rate" : own_.anneal_clip ? "clip" : "";
  }
  bool corrects_policy() const override { return own_.vtrace; }
  std::int64_t steps_at_once(const RunOptions& run) const override {
    const std::int64_t pieces = std::int64_t{own_.minibatches} * own_.gradient_accumulation;
    return divide_up(OnPolicySpec::steps_at_once(run), pieces);
  }

  void check(const RunOptions& run) const override {
    shoal::check(own_);
    const auto rollout_envs = run.envs / run.ranks / run.rollouts * run.ranks;
    const auto* const whose =
        run.rollouts == 1 ? "sampler.envs" : "the environments of a worker that samples on its own";
    const int slices = own_.slices > 0 ? own_.slices : run.ranks;
    require(slices % run.ranks == 0 && rollout_envs % slices == 0,
            "ppo.slices: found {}, expected a multiple of ranks, {}, that divides {}, {}", slices,
            run.ranks, whose, rollout_envs);
    const auto envs = rollout_envs / slices;
    const auto of_a_slice = slices > 1 ? fmt::format(" of each of {} slices", slices) : "";
    require(own_.minibatches <= run.horizon * envs,
            "ppo.minibatches: found {}, expected at most the {} steps{} (sampler.horizon x {})",
            own_.minibatches, run.horizon * envs, of_a_slice, whose);
    require((run.model.memory == MemoryKind::kNone && !own_.vtrace) || own_.minibatches <= envs,
            "ppo.minibatches: found {}, expected at most the {} environments{} ({}): with "
            "model.memory or ppo.vtrace, minibatches are whole sequences",
            own_.minibatches, envs, of_a_slice, whose);
  }

  std::unique_ptr<OnPolicyAlgo> make(Agent& agent, const RunOptions& run,
                                     ProcessGroup& ranks) const override {
    auto options = own_;
    options.seed = run.seed;
    return make_ppo(dynamic_cast<ActorCritic&>(agent), options, ranks);
  }
};

}  // namespace

std::unique_ptr<AlgoSpec> ppo_spec() { return std::make_unique<PpoSpec>(); }

}  // namespace shoal
