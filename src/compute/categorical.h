#pragma once

#include <cmath>
#include <cstdint>

#include "shoal/core/host_device.h"
#include "src/compute/noise.h"

namespace shoal {

// N rows of independent choices: sampled from softmax(logits), or the most likely ones.
struct CategoricalRows {
  const float* logits = nullptr;  // [N, stride]; each row's first sum(choices) are read
  std::int64_t stride = 0;
  const std::int64_t* choices = nullptr;  // [parts]: logits per choice, at least 1
  const bool* mask = nullptr;             // [N, sum(choices)], true = legal; or nullptr

  // Keys of the random numbers: row i belongs to environment first_env + i at `tick`, or, if
  // env_tick is not null, to environment env_tick[i][0] at tick env_tick[i][1].
  std::uint64_t seed = 0;
  std::int64_t tick = 0, first_env = 0;
  const std::int64_t* env_tick = nullptr;  // [N, 2]
  std::int64_t first_number = 0;           // choice j uses number first_number + j

  // Exactly one of the first two is set.
  std::int64_t* action = nullptr;  // [N, parts]
  bool* bit = nullptr;             // [N, parts], for choices of two
  float* log_prob = nullptr;       // [N]: the log-probability of all choices is added to it

  std::int64_t N = 0, parts = 0;
  bool greedy = false;  // argmax; uses no random numbers
};

struct CategoricalChoice {
  std::int64_t action;
  float log_prob;
};

// The logit, or a replacement for an illegal choice: finite, so that its product with a probability
// of zero is zero.
SHOAL_HOST_DEVICE inline float legal_logit(const float* logits, const bool* mask, std::int64_t a) {
  constexpr float kForbidden = -1e9F;
  return mask == nullptr || mask[a] ? logits[a] : kForbidden;
}

// The first of n choices whose cumulative probability exceeds u, or the first of the most likely.
// Weights are recomputed instead of stored: choices are few, and the result is the same.
SHOAL_HOST_DEVICE inline CategoricalChoice choose_categorical(const float* logits, const bool* mask,
                                                              std::int64_t n, float u,
                                                              bool greedy) {
  std::int64_t best = 0;
  float top = legal_logit(logits, mask, 0);
  for (std::int64_t a = 1; a < n; ++a) {
    const float logit = legal_logit(logits, mask, a);
    if (logit > top) top = logit, best = a;
  }
  float total = 0;
  for (std::int64_t a = 0; a < n; ++a) total += std::exp(legal_logit(logits, mask, a) - top);

  auto action = best;
  if (!greedy) {
    const float target = u * total;
    float sum = 0;
    action = 0;
    for (std::int64_t a = 0; a < n; ++a) {
      const float weight = std::exp(legal_logit(logits, mask, a) - top);
      if (weight <= 0) continue;  // illegal, or its probability underflows float32
      action = a;
      sum += weight;
      if (sum > target) break;
    }
  }
  return {action, legal_logit(logits, mask, action) - top - std::log(total)};
}

SHOAL_HOST_DEVICE inline void choose_row(const CategoricalRows& in, std::int64_t row) {
  const auto env = in.env_tick != nullptr ? in.env_tick[2 * row] : in.first_env + row;
  const auto tick = in.env_tick != nullptr ? in.env_tick[2 * row + 1] : in.tick;
  std::int64_t size = 0;
  for (std::int64_t part = 0; part < in.parts; ++part) size += in.choices[part];
  const float* logits = in.logits + row * in.stride;
  const bool* mask = in.mask != nullptr ? in.mask + row * size : nullptr;
  float sum = in.log_prob[row];
  for (std::int64_t part = 0; part < in.parts; ++part) {
    const auto n = in.choices[part];
    const float u = in.greedy ? 0 : noise_uniform(in.seed, env, tick, in.first_number + part);
    const auto chosen = choose_categorical(logits, mask, n, u, in.greedy);
    const auto at = row * in.parts + part;
    if (in.bit != nullptr)
      in.bit[at] = chosen.action != 0;
    else
      in.action[at] = chosen.action;
    sum += chosen.log_prob;
    logits += n;
    if (mask != nullptr) mask += n;
  }
  in.log_prob[row] = sum;
}

}  // namespace shoal
