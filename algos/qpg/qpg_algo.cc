#include "algos/qpg/qpg_algo.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "algos/loss_means.h"
#include "shoal/core/error.h"
#include "src/compute/accelerator.h"
#include "src/models/panel_kernels.h"

namespace shoal {
namespace {

// The weight of the entropy, alpha: exp of a parameter that Adam moves. Double precision, on the
// CPU.
class Temperature {
 public:
  explicit Temperature(double alpha)
      : log_alpha_(at::full({}, std::log(alpha), at::kDouble)),
        mean_(at::zeros({}, at::kDouble)),
        square_(at::zeros({}, at::kDouble)),
        steps_(at::zeros({}, at::kLong)) {}

  double alpha() const { return std::exp(*log_alpha_.const_data_ptr<double>()); }

  // Down the gradient of -log_alpha * (log_prob + target_entropy).
  void step(double log_prob, double target_entropy, double rate) {
    const double g = -(log_prob + target_entropy);
    auto &m = number(mean_), &v = number(square_);
    const auto t = static_cast<double>(++*steps_.data_ptr<std::int64_t>());
    m += (1 - kAdamBeta1) * (g - m);
    v += (1 - kAdamBeta2) * (g * g - v);
    const double root = std::sqrt(v / (1 - std::pow(kAdamBeta2, t))) + kAdamEpsilon;
    number(log_alpha_) -= rate * m / (1 - std::pow(kAdamBeta1, t)) / root;
  }

  void add_state(NamedTensors& all) const {
    all.add("log_alpha", log_alpha_);
    all.add("log_alpha.mean", mean_);
    all.add("log_alpha.square", square_);
    all.add("log_alpha.steps", steps_);
  }

 private:
  static double& number(const at::Tensor& t) { return *t.data_ptr<double>(); }
  at::Tensor log_alpha_, mean_, square_, steps_;
};

bool is_fused(const QpgAgent& agent) {
  return is_host(agent.device()) && agent.networks().are_mlps();
}

class QpgAlgo : public OffPolicyAlgo {
 public:
  QpgAlgo(QpgAgent& agent, StepReplay& replay, const QpgSettings& settings, ProcessGroup& ranks)
      : agent_(agent),
        ranks_(ranks),
        replay_(replay),
        settings_(settings),
        temperature_(agent.stochastic() ? settings.update.alpha : 1),
        learner_(is_fused(agent) ? make_fused_learner(agent, settings.batch / ranks.count(),
                                                      settings.precision, ranks)
                                 : make_tensor_learner(agent, ranks)),
        updates_(at::zeros({}, at::kLong)) {
    settings_.update.slices = replay.slices();
    settings_.update.first_slice = replay.first_slice();
    if (!replay.is_shared()) return;
    settings_.update.parts = ranks.count();
    settings_.update.part = ranks.rank();
  }

  void explore(const Progress&, bool learning) override {
    auto* exploration = agent_.exploration().data_ptr<float>();
    exploration[0] = learning ? 0 : 1;
    exploration[1] = static_cast<float>(settings_.exploration);
  }

  Metrics update(const Progress& progress, int updates) override {
    require_updates(updates);
    const double beta = beta_at(settings_, progress);
    const double factor = learning_rate_factor(settings_, progress);
    Sums sums;
    for (int i = 0; i < updates; ++i) learn(beta, factor, progress, sums);
    agent_.parameters_changed();
    return metrics(sums);
  }

  NamedTensors state() override {
    NamedTensors all;
    for (const auto& [name, m] : {std::pair{"policy", &learner_->policy_moments},
                                  std::pair{"critics", &learner_->critic_moments}}) {
      all.add(std::string(name) + ".mean", m->mean);
      all.add(std::string(name) + ".square", m->square);
      all.add(std::string(name) + ".steps", m->steps);
    }
    if (agent_.stochastic()) temperature_.add_state(all);
    all.add("updates", updates_);
    return all;
  }

 private:
  struct Sums {
    double critic_loss = 0, policy_loss = 0, value = 0, log_prob = 0, error = 0;
    int updates = 0, of_policy = 0;
    void add(const QpgResult& r, bool policy) {
      critic_loss += r.critic_loss;
      policy_loss += r.policy_loss;
      value += r.value;
      log_prob += r.log_prob;
      error += r.td_error;
      ++updates;
      of_policy += policy;
    }
  };

  // factor: what the learning rates are multiplied by.
  void learn(double beta, double factor, const Progress& progress, Sums& sums) {
    const auto& s = settings_;
    auto& count = *updates_.data_ptr<std::int64_t>();
    auto update = s.update;
    update.critic_rate *= factor;
    update.policy_rate *= factor;
    update.number = static_cast<std::uint64_t>(count);
    update.alpha = agent_.stochastic() ? temperature_.alpha() : 0;
    update.policy = ++count % s.policy_interval == 0;
    if (!update.policy) update.tau = 0;
    const auto& batch = sample_together(ranks_, replay_, s.batch, beta);
    auto result = learner_->learn(batch, update);
    average_numbers(result);
    for (const auto& [name, number] :
         {std::pair{"critic_loss", result.critic_loss},
          std::pair{"policy_loss", result.policy_loss}, std::pair{"td_error", result.td_error}})
      require_finite(name, number, progress);
    if (replay_.prioritized())
      replay_.update_priorities(batch.index, result.error + kLeastPriority);
    // The temperature of this update was the one before its step.
    if (s.learn_alpha && update.policy)
      temperature_.step(result.log_prob, s.target_entropy, factor * s.alpha_rate);
    sums.add(result, update.policy);
  }

  // Of all ranks' shares of the batch.
  void average_numbers(QpgResult& r) {
    const auto* error = r.error.const_data_ptr<float>();
    r.td_error =
        std::accumulate(error, error + r.error.numel(), 0.0) / static_cast<double>(r.error.numel());
    if (ranks_.count() == 1) return;
    std::array<double*, 5> each{&r.critic_loss, &r.policy_loss, &r.value, &r.log_prob, &r.td_error};
    const auto sum = at::empty({std::ssize(each)}, at::kDouble);
    auto* numbers = sum.data_ptr<double>();
    for (std::size_t i = 0; i < each.size(); ++i) numbers[i] = *each[i];
    ranks_.sum(sum);
    for (std::size_t i = 0; i < each.size(); ++i) *each[i] = numbers[i] / ranks_.count();
  }

  Metrics metrics(const Sums& sums) const {
    const double n = sums.updates;
    Metrics out = {{"critic_loss", sums.critic_loss / n},
                   {"td_error", sums.error / n},
                   {"value", sums.value / n}};
    if (sums.of_policy > 0) {
      out.emplace_back("policy_loss", sums.policy_loss / sums.of_policy);
      if (agent_.stochastic()) out.emplace_back("entropy", -sums.log_prob / sums.of_policy);
    }
    if (agent_.stochastic()) out.emplace_back("alpha", temperature_.alpha());
    return out;
  }

  QpgAgent& agent_;
  ProcessGroup& ranks_;
  StepReplay& replay_;
  QpgSettings settings_;
  Temperature temperature_;
  std::unique_ptr<QpgLearner> learner_;
  at::Tensor updates_;  // so far
};

}  // namespace

void require_policy(const char* name, const QpgAgent& agent, bool stochastic) {
  require(agent.stochastic() == stochastic, "{} needs an agent with a {} policy; set {}", name,
          stochastic ? "stochastic" : "deterministic",
          stochastic ? "QpgAgentOptions::stochastic" : "QpgAgentOptions::stochastic to false");
}

std::unique_ptr<OffPolicyAlgo> make_qpg_algo(const char* name, QpgAgent& agent, StepReplay& replay,
                                             const QpgSettings& s, ProcessGroup& ranks) {
  require(s.precision == Precision::kFloat32 || is_fused(agent),
          "{0}.precision: found bf16, which is for MLPs on the CPU; the agent's networks are {1}on "
          "{2}: set it to float32 (model.precision is that of nature-cnn)",
          name, agent.networks().are_mlps() ? "" : "of another model, ", agent.device().str());
  check_shares(name, s.batch, ranks, replay);
  require_no_batch_norm(ranks, 1, agent.parameters());
  return std::make_unique<QpgAlgo>(agent, replay, s, ranks);
}

}  // namespace shoal
