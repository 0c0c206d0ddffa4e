#include "shoal/algos/returns.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/device/accelerator.h"

namespace shoal {

namespace {

bool all_contiguous(const Outcomes& in) {
  for (const auto& t :
       {in.reward, in.terminated, in.truncated, in.valid, in.final_value, in.bootstrap_value})
    if (!t.is_contiguous()) return false;
  return true;
}

// For a kernel, or a loop. value: [T, B], contiguous.
ValuedWindow valued(const Outcomes& in, const at::Tensor& value) {
  return {.reward = in.reward.const_data_ptr<float>(),
          .terminated = in.terminated.const_data_ptr<bool>(),
          .truncated = in.truncated.const_data_ptr<bool>(),
          .valid = in.valid.const_data_ptr<bool>(),
          .value = value.const_data_ptr<float>(),
          .final_value = in.final_value.const_data_ptr<float>(),
          .bootstrap_value = in.bootstrap_value.const_data_ptr<float>(),
          .T = value.size(0),
          .B = value.size(1)};
}

}  // namespace

Advantages generalized_advantages(const Samples& s, const at::Tensor& value, double discount,
                                  double lambda) {
  torch::NoGradGuard no_grad;
  const auto window = outcomes(s);
  if (const auto* on = accelerator(value.device());
      on != nullptr && all_contiguous(window) && value.is_contiguous()) {
    Advantages out{at::empty_like(value), at::empty_like(value)};
    const c10::DeviceGuard guard(value.device());
    require_started("gae", on->kernels().gae({.window = valued(window, value),
                                              .advantage = out.advantage.data_ptr<float>(),
                                              .target = out.target.data_ptr<float>(),
                                              .discount = discount,
                                              .lambda = lambda},
                                             on->stream()));
    return out;
  }
  const auto over = s.terminated.logical_or(s.truncated);
  // What follows each step: the next row, unless the episode ended there. final_value is 0 where it
  // terminated.
  auto next = at::cat({value.narrow(0, 1, s.T - 1), s.bootstrap_value.unsqueeze(0)});
  next = at::where(over, s.final_value, next).masked_fill_(s.terminated, 0);
  auto delta = s.reward + discount * next - value;
  // Where nothing was done: before it stands the value of its observation, if it has one.
  if (s.steps < s.T * s.B) delta.masked_fill_(s.valid.logical_not(), 0);
  const auto carry = over.logical_not().to(at::kFloat).mul_(discount * lambda);

  auto advantage = at::empty_like(delta);
  auto running = at::zeros_like(s.bootstrap_value);
  for (auto t = s.T - 1; t >= 0; --t) {
    running.masked_fill_(over[t], 0);  // times 0, a NaN of the next episode would stay one
    running = at::addcmul(delta[t], carry[t], running);
    advantage[t].copy_(running);
  }
  return {advantage, advantage + value};
}

Outcomes outcomes(const Samples& s) {
  return {s.reward, s.terminated, s.truncated, s.valid, s.final_value, s.bootstrap_value};
}

Outcomes select(const Outcomes& o, const at::Tensor& envs) {
  return {o.reward.index_select(1, envs),      o.terminated.index_select(1, envs),
          o.truncated.index_select(1, envs),   o.valid.index_select(1, envs),
          o.final_value.index_select(1, envs), o.bootstrap_value.index_select(0, envs)};
}

namespace {

VTrace vtrace_of_tensors(const Outcomes& in, const at::Tensor& value, const at::Tensor& log_ratio,
                         const VTraceOptions& o) {
  const auto T = value.size(0);
  const auto ratio = log_ratio.exp();
  const auto c = ratio.clamp_max(o.c_bar).mul_(o.lambda);
  VTrace out{at::empty_like(value), at::empty_like(value), ratio.clamp_max(o.rho_bar)};
  const auto over = in.terminated.logical_or(in.truncated);
  const auto given = in.final_value.masked_fill(in.terminated, 0);
  auto next_value = in.bootstrap_value, next_target = in.bootstrap_value;
  for (auto t = T - 1; t >= 0; --t) {
    next_value = at::where(over[t], given[t], next_value);
    next_target = at::where(over[t], given[t], next_target);
    const auto delta = out.rho[t] * (in.reward[t] + o.discount * next_value - value[t]);
    out.advantage[t] = in.reward[t] + o.discount * next_target - value[t];
    const auto target = value[t] + delta + o.discount * c[t] * (next_target - next_value);
    next_target = at::where(in.valid[t], target, value[t]);
    next_value = value[t];
    out.target[t] = next_target;
  }
  return out;
}

// The same, step by step: a window of a small network's costs less to learn from than so many
// operations on tensors.
VTrace vtrace_of_numbers(const Outcomes& in, const at::Tensor& value, const at::Tensor& log_ratio,
                         const VTraceOptions& o) {
  const auto n = value.size(1);
  VTrace out{at::empty_like(value), at::empty_like(value), at::empty_like(value)};
  std::vector<float> next_value(static_cast<std::size_t>(n)), next_target;
  std::copy_n(in.bootstrap_value.const_data_ptr<float>(), n, next_value.begin());
  next_target = next_value;
  const auto discount = static_cast<float>(o.discount), lambda = static_cast<float>(o.lambda),
             rho_bar = static_cast<float>(o.rho_bar), c_bar = static_cast<float>(o.c_bar);
  for (auto i = value.numel() - n; i >= 0; i -= n) {
    const auto at = [i](const at::Tensor& x) { return x.const_data_ptr<float>() + i; };
    const float *reward = at(in.reward), *final_value = at(in.final_value), *v = at(value),
                *log_r = at(log_ratio);
    const bool *terminated = in.terminated.const_data_ptr<bool>() + i,
               *truncated = in.truncated.const_data_ptr<bool>() + i,
               *valid = in.valid.const_data_ptr<bool>() + i;
    float *target = out.target.data_ptr<float>() + i, *rho = out.rho.data_ptr<float>() + i,
          *advantage = out.advantage.data_ptr<float>() + i;
    for (std::int64_t b = 0; b < n; ++b) {
      const auto k = static_cast<std::size_t>(b);
      if (terminated[b] || truncated[b])
        next_value[k] = next_target[k] = terminated[b] ? 0 : final_value[b];
      const float ratio = std::exp(log_r[b]);
      rho[b] = std::min(ratio, rho_bar);  // in this order NaN stays
      advantage[b] = reward[b] + discount * next_target[k] - v[b];
      target[b] = v[b] + rho[b] * (reward[b] + discount * next_value[k] - v[b]) +
                  discount * lambda * std::min(ratio, c_bar) * (next_target[k] - next_value[k]);
      if (!valid[b]) target[b] = v[b];
      next_value[k] = v[b];
      next_target[k] = target[b];
    }
  }
  return out;
}

}  // namespace

VTrace vtrace(const Outcomes& in, const at::Tensor& value, const at::Tensor& log_ratio,
              const VTraceOptions& options) {
  torch::NoGradGuard no_grad;
  const bool plain = all_contiguous(in) && value.is_contiguous() && log_ratio.is_contiguous();
  if (const auto* on = accelerator(value.device()); on != nullptr && plain) {
    VTrace out{at::empty_like(value), at::empty_like(value), at::empty_like(value)};
    const c10::DeviceGuard guard(value.device());
    require_started("vtrace", on->kernels().vtrace({.window = valued(in, value),
                                                    .log_ratio = log_ratio.const_data_ptr<float>(),
                                                    .target = out.target.data_ptr<float>(),
                                                    .advantage = out.advantage.data_ptr<float>(),
                                                    .rho = out.rho.data_ptr<float>(),
                                                    .discount = options.discount,
                                                    .lambda = options.lambda,
                                                    .rho_bar = options.rho_bar,
                                                    .c_bar = options.c_bar},
                                                   on->stream()));
    return out;
  }
  return plain && value.is_cpu() ? vtrace_of_numbers(in, value, log_ratio, options)
                                 : vtrace_of_tensors(in, value, log_ratio, options);
}

}  // namespace shoal
