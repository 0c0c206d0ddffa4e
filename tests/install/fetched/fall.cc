// Pushes a cart to the right until its pole falls.
#include <array>
#include <cstdio>

#include "shoal/envs/registry.h"

int main() {
  const auto env = shoal::make_env_factory("CartPole-v1")({});
  std::array<float, 4> observation;
  auto* bytes = reinterpret_cast<std::byte*>(observation.data());
  const std::int64_t right = 1;
  const auto* action = reinterpret_cast<const std::byte*>(&right);
  const shoal::StepOut out{.observation = shoal::ArraysOut({&bytes, 1})};
  env->reset(1, out);
  int steps = 1;
  while (!env->step(shoal::ArraysIn({&action, 1}), out).terminated) ++steps;
  std::printf("it fell after %d steps\n", steps);
  return steps < 20 ? 0 : 1;
}
