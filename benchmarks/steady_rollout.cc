#include "benchmarks/steady_rollout.h"

#include <ATen/ATen.h>

#include "cli/bench_agents.h"

namespace shoal::cli {

Samples steady_rollout(const EnvSpec& env, std::int64_t T, std::int64_t B) {
  const auto& spec = env.observation[0];
  auto shape = spec.shape;
  shape.insert(shape.begin(), {T + 1, B});
  const auto flags = at::TensorOptions().dtype(at::kBool);
  Samples s;
  s.T = T;
  s.B = B;
  s.observation =
      spec.dtype == DType::kUInt8 ? at::randint(0, 256, shape, at::kByte) : at::randn(shape);
  s.action = random_actions(env.action[0], T, B);
  s.reward = at::randn({T, B});
  s.terminated = s.truncated = at::zeros({T, B}, flags);
  s.valid = at::ones({T, B}, flags);
  s.is_first = at::zeros({T + 1, B}, flags);
  s.final_obs.observation = Observed{s.observation[0].flatten(0, 1).narrow(0, 0, 0), {}};
  return s;
}

}  // namespace shoal::cli
