#include "src/agents/dqn/epsilon_greedy.h"

#include <algorithm>
#include <limits>

#include "shoal/core/error.h"
#include "src/agents/pg/head.h"

namespace shoal {

std::int64_t valued_actions(const EnvSpec& spec) {
  require(spec.action.size() == 1 && spec.action[0].kind == ActionSpec::Kind::kDiscrete,
          "{}: Q-learning needs one discrete action, and this environment has another action space",
          spec.id);
  return spec.action[0].choices[0];
}

PolicyOut greedy_outputs(const at::Tensor& values, const NamedTensors& mask) {
  constexpr auto kNever = -std::numeric_limits<float>::infinity();
  const auto legal = mask.empty() ? values : values.masked_fill(mask[0].logical_not(), kNever);
  const auto [value, action] = legal.max(1);
  return {.action = action, .value = value, .distribution = {{"values", values}}};
}

void EpsilonGreedy::choose_by_rows(const ActIn& in, const at::Tensor& values,
                                   at::Tensor& action) const {
  const Noise noise(in.noise);
  const auto* of_row = values.const_data_ptr<float>();
  const bool* mask = in.mask.empty() ? nullptr : in.mask[0].const_data_ptr<bool>();
  auto* to = action.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < action.size(0); ++i, of_row += values.size(1)) {
    const bool* legal = mask ? mask + i * actions_ : nullptr;
    const bool explore = !in.greedy && noise.uniform(i, 0) < epsilon_of(in.noise.row(i).env);
    to[i] = explore ? any(legal, noise.uniform(i, 1)) : best(of_row, legal);
  }
}

std::int64_t EpsilonGreedy::any(const bool* legal, float u) const {
  const auto count = legal ? std::count(legal, legal + actions_, true) : actions_;
  auto left = std::min(static_cast<std::int64_t>(u * static_cast<float>(count)), count - 1);
  if (!legal) return left;
  for (std::int64_t a = 0; a < actions_; ++a)
    if (legal[a] && left-- == 0) return a;
  return 0;  // no action is legal
}

std::int64_t EpsilonGreedy::best(const float* value, const bool* legal) const {
  std::int64_t best = -1;
  for (std::int64_t a = 0; a < actions_; ++a)
    if ((!legal || legal[a]) && (best < 0 || value[a] > value[best])) best = a;
  return std::max<std::int64_t>(best, 0);  // 0 if no action is legal
}

void EpsilonGreedy::choose(const ActIn& in, const at::Tensor& values, at::Tensor& action) {
  const auto n = action.size(0);
  const auto legal = in.mask.empty() ? at::ones_like(values, at::kBool) : in.mask[0];
  const auto best =
      values.masked_fill(legal.logical_not(), -std::numeric_limits<float>::infinity()).argmax(1);
  if (in.greedy) {
    action.copy_(best);
    return;
  }
  const Noise noise(in.noise);
  const auto u = noise.uniform({n, 0, 2}, values.device());
  auto epsilon = there_.of(epsilon_, values.device());
  if (epsilon_.size(0) > 1)
    epsilon = epsilon.index_select(0, noise.envs(n, values.device()).remainder(epsilon_.size(0)));
  const auto explore = u.select(1, 0).lt(epsilon);
  const auto place = (u.narrow(1, 1, 1) * legal.sum(1, true)).to(at::kLong);
  const auto any = legal.cumsum(1).le(place).sum(1).clamp_max(actions_ - 1);
  action.copy_(at::where(explore, any, best));
}

}  // namespace shoal
