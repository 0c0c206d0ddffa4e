#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "algos/adam.h"
#include "algos/qpg/qpg_learner.h"
#include "shoal/core/error.h"
#include "src/models/panel_mlp.h"

namespace shoal {
namespace {

// As at::minimum() orders numbers: nothing is less than NaN.
bool is_less(float a, float b) { return a < b || (std::isnan(a) && !std::isnan(b)); }

// One batch goes through in four stages, each in parallel: panels of rows through all networks and
// back, up to the critics' errors; then parts of the critics' parameters, each with its gradient,
// its step of Adam and its target; and the same for the policy. Nothing is added up in an order
// that depends on the threads.
//
// Against the plain way this saves, with the same results: no gradient of the critics' parameters
// is formed for the policy's loss, and none of their inputs but the actions; gradients stop at what
// the graph does not need; the actions at s and at s' are one forward pass with the same parameters
// (of a stochastic policy); and nothing is allocated.
class FusedLearner : public QpgLearner {
 public:
  FusedLearner(QpgAgent& agent, std::int64_t n, Precision precision, ProcessGroup& ranks)
      : QpgLearner(agent, ranks),
        agent_(agent),
        networks_(agent.networks()),
        n_(n),
        panels_(panels_of(n)),
        observed_(networks_.policy_mlp.in()),
        dims_(agent.dims()),
        width_(observed_ + dims_),
        policy_(networks_.policy_mlp, panels_, true, precision),
        next_policy_(networks_.policy_mlp, panels_, false, precision),
        chosen_(networks_.critic_mlp, panels_, true, precision) {
    for (std::int64_t k = 0; k < networks_.critics.size(0); ++k) {
      critics_.emplace_back(networks_.critic_mlp, panels_, true, precision);
      targets_.emplace_back(networks_.critic_mlp, panels_, false, precision);
    }
    for (auto* buffer : {&seen_, &next_, &rows_}) *buffer = PanelBuffer(width_, panels_);
    for (auto* buffer : {&action_, &of_action_, &share_}) *buffer = PanelBuffer(dims_, panels_);
    for (auto* buffer : {&scale_, &weight_, &wanted_, &log_prob_, &next_log_prob_, &worth_})
      *buffer = PanelBuffer(1, panels_);
    scale_.tensor.narrow(0, 0, n).fill_(1 / static_cast<float>(n));
    next_noise_ = at::empty({qpg_noise_size(n, dims_)});
    noise_ = at::empty_like(next_noise_);
    critic_gradient_ = at::empty_like(networks_.critics);
    policy_gradient_ = at::empty_like(networks_.policy);
    transposed_critics_ = at::empty_like(networks_.critics);
    transposed_policy_ = at::empty_like(networks_.policy);
    error_ = at::empty({n});
  }

  QpgResult learn(const Transitions& batch, const QpgUpdate& update) override {
    take(batch, update);
    transpose_critics();
    over_panels([&](const PanelRange& range) {
      load(range);
      act_next(range, update);
      judge(range);
    });
    QpgResult result;
    sum_up(result);
    learn_critics(update);
    if (!update.policy) return result;
    transpose_critics();
    policy_.transpose_weights(data(networks_.policy), data(transposed_policy_));
    over_panels([&](const PanelRange& range) { improve(range, update); });
    learn_policy(update);
    for (std::int64_t i = 0; i < n_; ++i) {
      result.log_prob += log_prob_.data[i] / static_cast<double>(n_);
      result.policy_loss -= worth_.data[i] / static_cast<double>(n_);
    }
    if (agent_.stochastic()) result.policy_loss += update.alpha * result.log_prob;
    return result;
  }

 private:
  static float* data(const at::Tensor& t) { return t.data_ptr<float>(); }
  static float* of(const PanelBuffer& buffer, std::int64_t rows, std::int64_t panel) {
    return buffer.data + panel * rows * kPanel;
  }
  float* critic(const at::Tensor& parameters, std::size_t k) const {
    return data(parameters) + static_cast<std::int64_t>(k) * networks_.critic_mlp.size();
  }
  PanelInput input(const PanelBuffer& buffer) const { return {buffer.data, width_ * kPanel}; }

  // Work that is not worth another thread's waking stays on this one.
  bool worth_threads() const {
    constexpr std::int64_t kWorth = 2'000'000;  // multiplications of one stage: about 40 us
    return networks_.critic_mlp.size() * panels_ * kPanel > kWorth && at::get_num_threads() > 1;
  }
  template <class Stage>
  void over_panels(const Stage& stage) const {
    if (!worth_threads()) return stage({0, panels_});
    at::parallel_for(0, panels_, 1, [&](std::int64_t from, std::int64_t to) { stage({from, to}); });
  }

  void take(const Transitions& batch, const QpgUpdate& update) {
    require(batch.reward.size(0) == n_, "a batch of {} steps for a learner of {}",
            batch.reward.size(0), n_);
    batch_ = {.observation = agent_.input(batch.observation)[0].data.contiguous(),
              .next = agent_.input(batch.next_observation)[0].data.contiguous(),
              .action = batch.action[0].contiguous(),
              .reward = data(batch.reward),
              .discount = data(batch.discount),
              .weight = data(batch.weight)};
    if (agent_.stochastic() || update.target_noise > 0)
      qpg_noise(update, true, n_, dims_, data(next_noise_));
    if (agent_.stochastic()) qpg_noise(update, false, n_, dims_, data(noise_));
  }

  void transpose_critics() {
    for (std::size_t k = 0; k < critics_.size(); ++k)
      critics_[k].transpose_weights(critic(networks_.critics, k), critic(transposed_critics_, k));
  }

  // Rows become panels; beyond the batch they are zeros of no weight.
  void load(const PanelRange& range) {
    const auto* observation = data(batch_.observation);
    const auto* next = data(batch_.next);
    const auto* action = data(batch_.action);
    const auto middle = static_cast<float>(agent_.middle());
    const auto scale = static_cast<float>(1 / agent_.half_width());
    for (auto row = range.from * kPanel; row < std::min(range.to * kPanel, n_); ++row) {
      const auto at = row / kPanel * width_ * kPanel + row % kPanel;
      float *seen = seen_.data + at, *then = next_.data + at;
      for (std::int64_t f = 0; f < observed_; ++f) {
        seen[f * kPanel] = observation[row * observed_ + f];
        then[f * kPanel] = next[row * observed_ + f];
      }
      for (std::int64_t i = 0; i < dims_; ++i)
        seen[(observed_ + i) * kPanel] = (action[row * dims_ + i] - middle) * scale;
      weight_.data[row] = batch_.weight[row];
    }
    transpose_panels(input(seen_), width_, panels_, range, rows_.data);
  }

  // The actions at s', beside it in the critics' input.
  void act_next(const PanelRange& range, const QpgUpdate& update) {
    const auto& by = agent_.stochastic() ? networks_.policy : networks_.target_policy;
    next_policy_.forward(data(by), input(next_), range);
    for (auto p = range.from; p < range.to; ++p) {
      float* to = of(next_, width_, p) + observed_ * kPanel;
      if (agent_.stochastic())
        kernels_.squash({dims_, next_policy_.output(p), data(next_noise_) + p * dims_ * kPanel, to,
                         of(next_log_prob_, 1, p)});
      else
        kernels_.tanh({dims_, next_policy_.output(p),
                       update.target_noise > 0 ? data(next_noise_) + p * dims_ * kPanel : nullptr,
                       static_cast<float>(update.target_noise),
                       static_cast<float>(update.target_clip), to});
    }
    for (std::size_t k = 0; k < targets_.size(); ++k)
      targets_[k].forward(critic(networks_.target_critics, k), input(next_), range);
    for (auto row = range.from * kPanel; row < std::min(range.to * kPanel, n_); ++row) {
      float least = targets_[0].output()[row];
      for (auto& target : targets_)
        if (const float value = target.output()[row]; is_less(value, least)) least = value;
      if (agent_.stochastic()) least -= static_cast<float>(update.alpha) * next_log_prob_.data[row];
      wanted_.data[row] = batch_.reward[row] + batch_.discount[row] * least;
    }
  }

  // The critics' errors, and their gradients.
  void judge(const PanelRange& range) {
    for (std::size_t k = 0; k < critics_.size(); ++k) {
      auto& net = critics_[k];
      const float* parameters = critic(networks_.critics, k);
      net.forward(parameters, input(seen_), range);
      for (auto row = range.from * kPanel; row < range.to * kPanel; ++row)
        net.output_gradient()[row] =
            scale_.data[row] * weight_.data[row] * (net.output()[row] - wanted_.data[row]);
      net.backward(parameters, critic(transposed_critics_, k), range);
    }
  }

  void sum_up(QpgResult& result) {
    const auto count = static_cast<float>(critics_.size());
    double loss = 0, value = 0;
    float* errors = data(error_);
    for (std::int64_t i = 0; i < n_; ++i) {
      float error = 0;
      for (auto& net : critics_) {
        const float off = net.output()[i] - wanted_.data[i];
        loss += 0.5 * weight_.data[i] * off * off;
        value += net.output()[i];
        error += std::abs(off);
      }
      errors[i] = error / count;
    }
    result.critic_loss = loss / static_cast<double>(n_);
    result.value = value / static_cast<double>(n_) / count;
    result.error = error_;
  }

  // How the parameters of one kind of network go on.
  struct Going {
    QpgMoments& moments;
    double rate, tau;
    const at::Tensor &parameters, &gradient, &target;  // target: undefined if there is none
  };
  AdamStep adam_of(const Going& going) const {
    const auto t = static_cast<double>(*going.moments.steps.data_ptr<std::int64_t>());
    auto step = make_adam_step(t, going.rate, kAdamEpsilon);
    step.tau = static_cast<float>(going.tau);
    return step;
  }
  void step(const AdamStep& adam, const Going& going, std::int64_t offset, std::int64_t n) const {
    auto s = adam;
    s.n = n;
    s.parameter = data(going.parameters) + offset;
    s.mean = data(going.moments.mean) + offset;
    s.square = data(going.moments.square) + offset;
    s.gradient = data(going.gradient) + offset;
    s.target = going.target.defined() && going.tau > 0 ? data(going.target) + offset : nullptr;
    kernels_.adam(s);
  }
  // Each thread takes some rows of every layer of every such network from gradient to target.
  template <class Nets>
  void learn_parameters(const Nets& nets, const Going& going) const {
    ++*going.moments.steps.template data_ptr<std::int64_t>();
    const auto adam = adam_of(going);
    const std::int64_t parts = worth_threads() ? at::get_num_threads() : 1;
    const auto size = going.parameters.numel() / static_cast<std::int64_t>(nets.size());
    const auto over_parts = [&](const auto& act) {
      at::parallel_for(0, parts, 1, [&](std::int64_t first, std::int64_t last) {
        for (auto part = first; part < last; ++part) {
          std::int64_t offset = 0;
          for (const PanelMlp& net : nets) {
            act(net, part, offset);
            offset += size;
          }
        }
      });
    };
    const auto gradient = [&](const PanelMlp& net, std::int64_t part, std::int64_t offset) {
      net.parameter_gradient(input(seen_), rows_.data, part, parts, data(going.gradient) + offset);
    };
    const auto steps = [&](const PanelMlp& net, std::int64_t part, std::int64_t offset) {
      for (const auto& span : net.part_of(part, parts))
        step(adam, going, offset + span.offset, span.count);
    };
    if (ranks_.count() == 1)  // while a part's gradient is in the cache
      return over_parts([&](const auto& net, std::int64_t part, std::int64_t offset) {
        gradient(net, part, offset);
        steps(net, part, offset);
      });
    over_parts(gradient);
    average(going.gradient);
    over_parts(steps);
  }
  void learn_critics(const QpgUpdate& update) {
    learn_parameters(critics_, {critic_moments, update.critic_rate, update.tau, networks_.critics,
                                critic_gradient_, networks_.target_critics});
  }
  void learn_policy(const QpgUpdate& update) {
    learn_parameters(std::array{std::cref(policy_)},
                     {policy_moments, update.policy_rate, update.tau, networks_.policy,
                      policy_gradient_, networks_.target_policy});
  }

  // The policy's actions at s, their value by the critics as they are now, and back to the policy.
  void improve(const PanelRange& range, const QpgUpdate& update) {
    policy_.forward(data(networks_.policy), input(seen_), range);
    for (auto p = range.from; p < range.to; ++p) {
      float* action = of(action_, dims_, p);
      if (agent_.stochastic())
        kernels_.squash(squash_of(p));
      else
        kernels_.tanh({dims_, policy_.output(p), nullptr, 0, 0, action});
      std::copy_n(action, dims_ * kPanel, of(seen_, width_, p) + observed_ * kPanel);
    }
    gradient_of_value(range, update);
    for (auto p = range.from; p < range.to; ++p) {
      if (agent_.stochastic())
        kernels_.squash_gradient({squash_of(p), of(of_action_, dims_, p), of(scale_, 1, p),
                                  static_cast<float>(update.alpha), policy_.output_gradient(p)});
      else
        kernels_.tanh_gradient(of(of_action_, dims_, p), of(action_, dims_, p), dims_ * kPanel,
                               policy_.output_gradient(p));
    }
    policy_.backward(data(networks_.policy), data(transposed_policy_), range);
  }
  PanelSquash squash_of(std::int64_t p) {
    return {dims_, policy_.output(p), data(noise_) + p * dims_ * kPanel, of(action_, dims_, p),
            of(log_prob_, 1, p)};
  }

  // Of -value to the actions; of each row through the critic alone that it depends on.
  void gradient_of_value(const PanelRange& range, const QpgUpdate& update) {
    const auto used = update.least_value ? critics_.size() : 1;
    for (std::size_t k = 0; k < used; ++k)
      critics_[k].forward(critic(networks_.critics, k), input(seen_), range);
    std::vector<std::vector<std::int64_t>> rows(used);
    for (auto row = range.from * kPanel; row < std::min(range.to * kPanel, n_); ++row) {
      std::size_t least = 0;
      for (std::size_t k = 1; k < used; ++k)
        if (is_less(critics_[k].output()[row], critics_[least].output()[row])) least = k;
      rows[least].push_back(row);
      worth_.data[row] = critics_[least].output()[row];
    }
    for (std::size_t k = 0; k < used; ++k)
      if (!rows[k].empty()) gradient_of_critic(k, rows[k], range);
  }

  void gradient_of_critic(std::size_t k, const std::vector<std::int64_t>& rows,
                          const PanelRange& range) {
    const auto count = static_cast<std::int64_t>(rows.size()), panels = panels_of(count);
    const PanelRange packed{range.from, range.from + panels, count - (panels - 1) * kPanel};
    const float* parameters = critic(networks_.critics, k);
    chosen_.take(critics_[k], rows, packed);
    std::fill_n(chosen_.output_gradient(range.from), panels * kPanel, -1 / static_cast<float>(n_));
    chosen_.backward(parameters, critic(transposed_critics_, k), packed, /*learns=*/false);
    chosen_.input_gradient(parameters, observed_, dims_, packed, share_.data);
    for (std::int64_t j = 0; j < count; ++j) {
      const float* from = of(share_, dims_, range.from + j / kPanel) + j % kPanel;
      float* to = of(of_action_, dims_, rows[static_cast<std::size_t>(j)] / kPanel) +
                  rows[static_cast<std::size_t>(j)] % kPanel;
      for (std::int64_t i = 0; i < dims_; ++i) to[i * kPanel] = from[i * kPanel];
    }
  }

  struct Taken {
    at::Tensor observation, next, action;
    const float *reward, *discount, *weight;
  };

  QpgAgent& agent_;
  const QpgAgent::Networks& networks_;
  const PanelKernels& kernels_ = panel_kernels();
  std::int64_t n_, panels_, observed_, dims_, width_;
  Taken batch_{};
  PanelMlp policy_, next_policy_;
  PanelMlp chosen_;  // rows of one critic, packed, on the way back from the policy's loss
  std::vector<PanelMlp> critics_, targets_;
  PanelBuffer seen_, next_;                 // the critics' input at s and at s'
  PanelBuffer rows_;                        // seen_ with the batch's actions, transposed
  PanelBuffer action_, of_action_, share_;  // [panels][dims][kPanel]
  PanelBuffer scale_, weight_, wanted_, log_prob_, next_log_prob_, worth_;  // [panels][kPanel]
  at::Tensor next_noise_, noise_;
  at::Tensor critic_gradient_, policy_gradient_;
  at::Tensor transposed_critics_, transposed_policy_;  // as the parameters lie, layer by layer
  at::Tensor error_;                                   // [N]
};

}  // namespace

std::unique_ptr<QpgLearner> make_fused_learner(QpgAgent& agent, std::int64_t n, Precision precision,
                                               ProcessGroup& ranks) {
  require(agent.device().is_cpu(), "the fused learner is for the CPU; the agent is on {}",
          agent.device().str());
  require(agent.networks().are_mlps(),
          "the fused learner is for MLPs; the agent has other networks");
  return std::make_unique<FusedLearner>(agent, n, precision, ranks);
}

}  // namespace shoal
