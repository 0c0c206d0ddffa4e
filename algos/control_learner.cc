#include "algos/control_learner.h"

#include <ATen/ATen.h>

#include "src/models/panel_kernels.h"

namespace shoal {
namespace {

ControlMoments moments_of(const at::Tensor& parameters) {
  return {.mean = at::zeros_like(parameters),
          .square = at::zeros_like(parameters),
          .steps = at::zeros({}, at::kLong)};
}

}  // namespace

ControlLearner::ControlLearner(ControlAgent& agent)
    : policy_moments(moments_of(agent.networks().policy)),
      critic_moments(moments_of(agent.networks().critics)) {}

std::int64_t control_noise_size(std::int64_t n, std::int64_t dims) {
  constexpr std::int64_t kUnit = 4 * kPanel;  // of what makes them
  return (panels_of(n) * dims * kPanel + kUnit - 1) / kUnit * kUnit;
}

void control_noise(const ControlUpdate& update, bool next, std::int64_t size, float* to) {
  panel_kernels().normal(update.seed, 2 * update.number + (next ? 1 : 0), size, to);
}

}  // namespace shoal
