#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/envs/env.h"

namespace shoal {

// Draws random actions: uniform between the bounds, or in [-1, 1] where there are none; with a
// mask, an illegal draw becomes the next legal choice. Allocates only in the constructor.
class RandomActions {
 public:
  RandomActions(const Named<ActionSpec>& spec, Rng rng);
  RandomActions(const RandomActions&) = delete;
  RandomActions& operator=(const RandomActions&) = delete;

  // mask: one byte per choice of a discrete action, 0 where it is illegal; null: all are legal. The
  // result is valid until the next call.
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
