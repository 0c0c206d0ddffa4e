#include "algos/qpg/qpg_learner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "shoal/core/rng.h"
#include "src/models/panel_kernels.h"

namespace shoal {
namespace {

QpgMoments moments_of(const at::Tensor& parameters) {
  return {.mean = at::zeros_like(parameters),
          .square = at::zeros_like(parameters),
          .steps = at::zeros({}, at::kLong)};
}

}  // namespace

QpgLearner::QpgLearner(QpgAgent& agent, ProcessGroup& ranks)
    : policy_moments(moments_of(agent.networks().policy)),
      critic_moments(moments_of(agent.networks().critics)),
      ranks_(ranks) {}

void QpgLearner::average(const at::Tensor& gradient) const {
  if (ranks_.count() == 1) return;
  const auto sum = ranks_.sums_on(gradient.device()) ? gradient.contiguous()
                                                     : gradient.to(at::kCPU).contiguous();
  ranks_.sum(sum);
  gradient.copy_(sum.div_(ranks_.count()));
}

std::int64_t qpg_noise_size(std::int64_t n, std::int64_t dims) {
  constexpr std::int64_t kUnit = 4 * kPanel;  // of what makes them
  return (panels_of(n) * dims * kPanel + kUnit - 1) / kUnit * kUnit;
}

void qpg_noise(const QpgUpdate& update, bool next, std::int64_t n, std::int64_t dims, float* to) {
  const auto stream = 2 * update.number + (next ? 1 : 0);
  const auto of_slice = [&](int slice, std::int64_t rows, float* numbers) {
    const std::int64_t number = update.first_slice + std::int64_t{slice};
    panel_kernels().normal(slice_seed(update.seed, number), stream, qpg_noise_size(rows, dims),
                           numbers);
  };
  if (update.slices == 1 && update.parts == 1) return of_slice(0, n, to);
  const auto own = n / update.slices, each = own * update.parts;
  std::fill_n(to, qpg_noise_size(n, dims), 0.0F);  // beyond the batch, too
  std::vector<float> numbers(static_cast<std::size_t>(qpg_noise_size(each, dims)));
  const auto place = [&](std::int64_t row, std::int64_t d) {
    return (row / kPanel * dims + d) * kPanel + row % kPanel;
  };
  for (int s = 0; s < update.slices; ++s) {
    of_slice(s, each, numbers.data());
    for (std::int64_t row = 0; row < own; ++row)
      for (std::int64_t d = 0; d < dims; ++d)
        to[place(s * own + row, d)] =
            numbers[static_cast<std::size_t>(place(update.part * own + row, d))];
  }
}

}  // namespace shoal
