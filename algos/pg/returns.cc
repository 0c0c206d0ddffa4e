#include "shoal/algos/returns.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "src/compute/accelerator.h"

namespace shoal {

namespace {

Outcomes contiguous(const Outcomes& in) {
  return {in.reward.contiguous(), in.terminated.contiguous(),  in.truncated.contiguous(),
          in.valid.contiguous(),  in.final_value.contiguous(), in.bootstrap_value.contiguous()};
}

// All contiguous; value: [T, B].
ValuedRollout valued(const Outcomes& in, const at::Tensor& value) {
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
  const auto rollout = contiguous(outcomes(s));
  const auto values = value.contiguous();
  Advantages out{at::empty_like(values), at::empty_like(values)};
  const Gae gae{.rollout = valued(rollout, values),
                .advantage = out.advantage.data_ptr<float>(),
                .target = out.target.data_ptr<float>(),
                .discount = discount,
                .lambda = lambda};
  if (const auto* on = accelerator(value.device())) {
    const c10::DeviceGuard guard(value.device());
    require_started("gae", on->kernels().gae(gae, on->stream()));
  } else {
    for (std::int64_t b = 0; b < gae.rollout.B; ++b) gae_column(gae, b);
  }
  return out;
}

Outcomes outcomes(const Samples& s) {
  return {s.reward, s.terminated, s.truncated, s.valid, s.final_value, s.bootstrap_value};
}

Outcomes select(const Outcomes& o, const at::Tensor& envs) {
  return {o.reward.index_select(1, envs),      o.terminated.index_select(1, envs),
          o.truncated.index_select(1, envs),   o.valid.index_select(1, envs),
          o.final_value.index_select(1, envs), o.bootstrap_value.index_select(0, envs)};
}

VTrace vtrace(const Outcomes& in, const at::Tensor& value, const at::Tensor& log_ratio,
              const VTraceOptions& options) {
  torch::NoGradGuard no_grad;
  const auto rollout = contiguous(in);
  const auto values = value.contiguous(), ratios = log_ratio.contiguous();
  VTrace out{at::empty_like(values), at::empty_like(values), at::empty_like(values)};
  const VTraceColumns columns{.rollout = valued(rollout, values),
                              .log_ratio = ratios.const_data_ptr<float>(),
                              .target = out.target.data_ptr<float>(),
                              .advantage = out.advantage.data_ptr<float>(),
                              .rho = out.rho.data_ptr<float>(),
                              .discount = options.discount,
                              .lambda = options.lambda,
                              .rho_bar = options.rho_bar,
                              .c_bar = options.c_bar};
  if (const auto* on = accelerator(value.device())) {
    const c10::DeviceGuard guard(value.device());
    require_started("vtrace", on->kernels().vtrace(columns, on->stream()));
  } else {
    for (std::int64_t b = 0; b < columns.rollout.B; ++b) vtrace_column(columns, b);
  }
  return out;
}

}  // namespace shoal
