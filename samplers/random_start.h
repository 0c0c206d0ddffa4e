#pragma once

#include <cstdint>

#include "shoal/envs/random_actions.h"

namespace shoal {

// Takes the random steps of SamplerOptions::decorrelation after a reset with this seed: calls
// step(action) 0 to `most` times. mask: of the newest observation; null if there is none.
template <class Step>
void take_random_steps(const EnvSpec& spec, std::uint64_t seed, std::int64_t most, const bool* mask,
                       const Step& step) {
  RandomActions random(spec.action, Rng(~seed));  // ~: not the numbers of the environment
  const auto steps = random.rng().integer(0, most + 1);
  for (std::int64_t i = 0; i < steps; ++i)
    step(random.choose(reinterpret_cast<const std::byte*>(mask)));
}

}  // namespace shoal
