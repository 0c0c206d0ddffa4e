#pragma once

#include <torch/torch.h>

#include "shoal/models/actor_critic.h"

namespace shoal {

// The output of a model for some observations, without gradients.
struct Heads {
  at::Tensor policy, value;
};

inline Heads heads_of(ActorCriticModel& model, const Observations& observation) {
  torch::NoGradGuard no_grad;
  const auto out = model.forward({.observation = observation, .state = {}, .is_first = {}});
  return {out.policy, out.value};
}

// The same by the network for acting, into tensors with other contents.
inline Heads heads_of(ActingNetwork& network, const Observations& observation,
                      std::int64_t policy_size) {
  torch::NoGradGuard no_grad;
  const auto n = observation[0].size();
  Heads out{at::full({n, policy_size}, 1e9F), at::full({n}, 1e9F)};
  network.run(observation, out.policy, out.value, /*first_env=*/0);
  return out;
}

// Fills all parameters, biases included, with random numbers that keep activations of order 1.
inline void randomize(ActorCriticModel& model) {
  torch::NoGradGuard no_grad;
  for (auto& p : model.parameters())
    p.normal_(0, p.dim() == 1 ? 0.5 : 1.0 / std::sqrt(static_cast<double>(p[0].numel())));
}

// Images of random bytes, `stack` of them an observation by random references, a fifth of them
// blank; plain ones for stack 1. `shape` is that of one stored image.
inline Observed random_images(std::int64_t n, int stack, std::vector<std::int64_t> shape) {
  const std::int64_t frames = stack == 1 ? n : n + 3;
  shape.insert(shape.begin(), frames);
  const auto data = at::randint(1, 256, shape, at::kByte);
  if (stack == 1) return {data, {}};
  auto index = at::randint(0, frames, {n, stack}, at::kLong);
  index.masked_fill_(at::rand({n, stack}).lt(0.2), -1);
  index[0].fill_(-1);  // nothing but blanks
  index[-1].copy_(at::arange(frames - stack, frames, at::kLong));
  return {data, index};
}

}  // namespace shoal
