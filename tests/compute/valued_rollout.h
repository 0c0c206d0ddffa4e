#pragma once

#include "src/compute/valued_rollout.h"
#include "tests/algos/rollouts.h"

namespace shoal {

// A random rollout with both kinds of ends, some steps with both; some environments wait after an
// end until the rollout's end.
struct RolloutCase {
  std::int64_t T, B;
  double ends, waits;  // probabilities: per step, of each kind of end; per environment, of waiting
};

inline Samples random_ends(const RolloutCase& c) {
  auto s = random_rollout(c.T, c.B, 1, 2);
  s.terminated = at::rand({c.T, c.B}).lt(c.ends);
  s.truncated = at::rand({c.T, c.B}).lt(c.ends);
  for (std::int64_t b = 0; b < c.B; ++b) {
    if (at::rand({}).item<double>() >= c.waits) continue;
    const auto from = at::randint(0, c.T, {}, at::kLong).item<std::int64_t>();
    s.valid.select(1, b).slice(0, from).fill_(false);
    s.reward.select(1, b).slice(0, from).fill_(0);
    s.terminated.select(1, b).slice(0, from).fill_(false);
    s.truncated.select(1, b).slice(0, from).fill_(false);
    if (from > 0 && at::rand({}).item<double>() < 0.5)
      s.truncated[from - 1][b] = true;
    else
      s.truncated[from][b] = true;  // the worker died in this step
  }
  s.steps = s.valid.sum().item<std::int64_t>();
  s.final_value = at::randn({c.T, c.B}) * 3;  // only those of truncated steps are used
  s.bootstrap_value = at::randn({c.B});
  return s;
}

inline const std::vector<RolloutCase>& rollout_cases() {
  static const std::vector<RolloutCase> kCases = {
      {1, 1, 0, 0},        {1, 7, 0.5, 0}, {2, 3, 0.3, 0.5}, {5, 33, 0.1, 0},    {128, 8, 0.02, 0},
      {20, 100, 0.1, 0.4}, {9, 64, 1, 0},  {40, 1, 0.2, 0},  {3, 257, 0.2, 0.2}, {64, 5, 0, 1}};
  return kCases;
}

// The rollout's tensors on a kernel's device; owns them.
class RolloutThere {
 public:
  template <class Move>
  RolloutThere(const Samples& s, const at::Tensor& value, Move&& move)
      : T_(s.T),
        B_(s.B),
        reward_(move(s.reward)),
        terminated_(move(s.terminated)),
        truncated_(move(s.truncated)),
        valid_(move(s.valid)),
        value_(move(value)),
        final_value_(move(s.final_value)),
        bootstrap_value_(move(s.bootstrap_value)) {}

  ValuedRollout rollout() const {
    return {.reward = reward_.const_data_ptr<float>(),
            .terminated = terminated_.const_data_ptr<bool>(),
            .truncated = truncated_.const_data_ptr<bool>(),
            .valid = valid_.const_data_ptr<bool>(),
            .value = value_.const_data_ptr<float>(),
            .final_value = final_value_.const_data_ptr<float>(),
            .bootstrap_value = bootstrap_value_.const_data_ptr<float>(),
            .T = T_,
            .B = B_};
  }

 private:
  std::int64_t T_, B_;
  at::Tensor reward_, terminated_, truncated_, valid_, value_, final_value_, bootstrap_value_;
};

}  // namespace shoal
