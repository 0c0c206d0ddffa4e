#pragma once

#include <torch/torch.h>

#include <utility>

#include "shoal/data/samples.h"

namespace shoal {

// A rollout for feed-forward agents whose observation, action, log_prob, value and reward the
// caller chose: observation [T+1, B, ...], action [T, B], the others [T, B]. No episode ends in it.
struct CapturedGraph {
  at::Tensor observation, action, log_prob, value, reward;
};

inline Samples make_rollout(const CapturedGraph& r) {
  Samples s;
  s.T = r.reward.size(0);
  s.B = r.reward.size(1);
  s.observation = r.observation;
  s.observed = Observed{r.observation.flatten(0, 1), {}};
  s.action = r.action;
  s.agent_info = {{"log_prob", r.log_prob}, {"value", r.value}};
  s.reward = r.reward;
  s.terminated = at::zeros({s.T, s.B}, at::kBool);
  s.truncated = at::zeros({s.T, s.B}, at::kBool);
  s.valid = at::ones({s.T, s.B}, at::kBool);
  s.steps = s.T * s.B;
  s.is_first = at::zeros({s.T + 1, s.B}, at::kBool);
  s.bootstrap_value = at::zeros({s.B});
  s.final_value = at::zeros({s.T, s.B});
  return s;
}

// A rollout of random numbers for an agent with `choices` actions that reads vectors of `width`.
inline Samples random_rollout(std::int64_t T, std::int64_t B, std::int64_t width,
                              std::int64_t choices) {
  return make_rollout({.observation = at::randn({T + 1, B, width}),
                       .action = at::randint(0, choices, {T, B}, at::kLong),
                       .log_prob = at::randn({T, B}) * 0.1 - std::log(static_cast<double>(choices)),
                       .value = at::randn({T, B}),
                       .reward = at::randn({T, B})});
}

}  // namespace shoal
