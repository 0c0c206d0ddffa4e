#include <algorithm>
#include <cmath>
#include <numbers>

#include "shoal/core/error.h"
#include "src/agents/pg/head.h"

namespace shoal {
namespace {

// Bounds of a deviation from the network: larger ones are useless, smaller ones end exploration.
constexpr double kMinLogStd = -5, kMaxLogStd = 2;
const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

class GaussianHead : public Head {
 public:
  GaussianHead(const ActionSpec& spec, const ActorCriticOptions& options)
      : dims_(spec.dims), squash_(options.squash) {
    bounded_ = spec.bounded();
    require(bounded_ || !squash_,
            "agent.squash: found an action within [{}, {}], expected finite bounds; leave it off",
            spec.low, spec.high);
    require(options.initial_std > 0, "agent.initial_std: found {}, expected a number above 0",
            options.initial_std);
    initial_log_std_ = std::log(options.initial_std);
    require(
        !options.network_std || (initial_log_std_ > kMinLogStd && initial_log_std_ < kMaxLogStd),
        "agent.initial_std: found {}, expected {:.2g} to {:.2g} with agent.network_std",
        options.initial_std, std::exp(kMinLogStd), std::exp(kMaxLogStd));
    middle_ = bounded_ ? (spec.low + spec.high) / 2 : 0;
    half_width_ = bounded_ ? (spec.high - spec.low) / 2 : 1;
    if (!options.network_std)
      log_std_ = register_parameter("log_std", at::full({dims_}, initial_log_std_));
  }

  std::int64_t size() const override { return log_std_.defined() ? dims_ : 2 * dims_; }
  std::int64_t noise_size() const override { return 2 * dims_; }
  std::int64_t raw_size() const override { return dims_; }

  void act(const HeadIn& in, at::Tensor& action, at::Tensor& raw, at::Tensor& log_prob) override {
    if (in.by_rows) return act_by_rows(in, action, raw, log_prob);
    const auto [mean, log_std] = distribution(in.policy);
    auto drawn = mean;
    if (!in.greedy) {
      const auto noise = in.noise.normal({mean.size(0), in.first_number, dims_}, mean.device());
      drawn = mean + log_std.exp() * noise;
    }
    raw.copy_(drawn);
    action.copy_(within_bounds(drawn));
    log_prob.add_(density(mean, log_std, drawn));
  }

  HeadOut outputs(const at::Tensor& policy, const at::Tensor&,
                  const at::Tensor& noise) const override {
    const auto [mean, log_std] = distribution(policy);
    HeadOut out{.action = within_bounds(mean),
                .distribution = {{"mean", mean}, {"std", log_std.exp()}}};
    if (!noise.defined()) return out;
    const auto drawn = mean + log_std.exp() * normal_of(noise.unflatten(1, {dims_, 2}));
    out.sample = within_bounds(drawn);
    out.log_prob = density(mean, log_std, drawn);
    return out;
  }

  HeadEvaluation evaluate(const HeadEvaluateIn& in) override {
    const auto [mean, log_std] = distribution(in.policy);
    auto entropy = (log_std + 0.5 + kHalfLogTwoPi).sum(1);
    // The entropy after tanh has no closed form: the expected log-slope of tanh, which it adds, is
    // estimated at the action, written as mean + deviation * z so that the estimate has a gradient.
    if (squash_) {
      const auto z = ((in.raw - mean) * (-log_std).exp()).detach();
      entropy = entropy + log_slope(mean + log_std.exp() * z).sum(1);
    }
    return {density(mean, log_std, in.raw), entropy};
  }

 private:
  struct Distribution {
    at::Tensor mean, log_std;  // [N, dims]
  };

  Distribution distribution(const at::Tensor& policy) const {
    const auto mean = policy.narrow(1, 0, dims_);
    if (log_std_.defined()) return {mean, log_std_.expand_as(mean)};
    return {mean,
            (policy.narrow(1, dims_, dims_) + initial_log_std_).clamp(kMinLogStd, kMaxLogStd)};
  }

  // In scalar loops: tensor operations may round the last elements of a tensor differently, and a
  // row must not depend on its batch.
  void act_by_rows(const HeadIn& in, at::Tensor& action, at::Tensor& raw,
                   at::Tensor& log_prob) const {
    const auto rows = in.policy.size(0), stride = in.policy.stride(0);
    const auto* policy = in.policy.const_data_ptr<float>();
    const auto* learned = log_std_.defined() ? log_std_.const_data_ptr<float>() : nullptr;
    auto *to_action = action.data_ptr<float>(), *to_raw = raw.data_ptr<float>();
    auto* sum = log_prob.data_ptr<float>();
    for (std::int64_t row = 0; row < rows; ++row, policy += stride) {
      for (std::int64_t i = 0; i < dims_; ++i) {
        const double log_std =
            learned ? learned[i]
                    : std::clamp(policy[dims_ + i] + initial_log_std_, kMinLogStd, kMaxLogStd);
        const float z = in.greedy ? 0 : in.noise.normal(row, in.first_number + 2 * i);
        const auto drawn = static_cast<float>(policy[i] + std::exp(log_std) * z);
        *to_raw++ = drawn;
        *to_action++ = static_cast<float>(within_bounds(drawn));
        sum[row] += static_cast<float>(-0.5 * z * z - log_std - kHalfLogTwoPi);
        if (squash_) sum[row] -= static_cast<float>(log_slope(drawn));
      }
    }
  }

  double within_bounds(double raw) const {
    if (!bounded_) return raw;
    return (squash_ ? std::tanh(raw) : std::clamp(raw, -1.0, 1.0)) * half_width_ + middle_;
  }
  at::Tensor within_bounds(const at::Tensor& raw) const {
    if (!bounded_) return raw;
    return (squash_ ? raw.tanh() : raw.clamp(-1, 1)) * half_width_ + middle_;
  }

  // log p of the action; raw: in half-widths.
  at::Tensor density(const at::Tensor& mean, const at::Tensor& log_std,
                     const at::Tensor& raw) const {
    const auto z = (raw - mean) * (-log_std).exp();
    auto log_prob = -0.5 * z.square() - log_std - kHalfLogTwoPi;
    if (squash_) log_prob = log_prob - log_slope(raw);
    return log_prob.sum(1);
  }

  // log(1 - tanh(x)^2), without the cancellation.
  static double log_slope(double x) {
    return 2 * (std::numbers::ln2 - std::abs(x) - std::log1p(std::exp(-2 * std::abs(x))));
  }
  static at::Tensor log_slope(const at::Tensor& x) {
    return 2 * (std::numbers::ln2 - x - at::softplus(-2 * x));
  }

  std::int64_t dims_;
  bool squash_, bounded_;
  double middle_, half_width_, initial_log_std_;
  at::Tensor log_std_;  // [dims]; undefined: output by the network
};

}  // namespace

std::shared_ptr<Head> make_gaussian_head(const ActionSpec& spec,
                                         const ActorCriticOptions& options) {
  return std::make_shared<GaussianHead>(spec, options);
}

}  // namespace shoal
