#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/envs/env.h"

namespace shoal {

// Chooses actions at random: uniformly between the bounds, or in [-1, 1] where there are none.
// Allocates nothing once it is made.
class RandomActions {
 public:
  RandomActions(const Named<ActionSpec>& spec, Rng rng);
  RandomActions(const RandomActions&) = delete;
  RandomActions& operator=(const RandomActions&) = delete;

  // mask: a byte for each choice of a discrete action, 0 where it is forbidden; null: all are
  // legal. Valid until the next call.
  ArraysIn choose(const std::byte* mask = nullptr);

  Rng& rng() { return rng_; }
  const Rng& rng() const { return rng_; }

 private:
  void choose(const ActionSpec& spec, const std::byte* mask, std::byte* to);

  Named<ActionSpec> spec_;
  std::vector<std::vector<std::byte>> actions_;
  std::vector<const std::byte*> fields_;
  Rng rng_;
};

}  // namespace shoal
