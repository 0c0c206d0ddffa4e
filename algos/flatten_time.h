#pragma once

#include "shoal/data/samples.h"

namespace shoal {

// The first `steps` rows of tensors [T or more, B, ...], flattened to [steps * B, ...].
inline NamedTensors flatten_time_and_batch(const NamedTensors& tensors, std::int64_t steps) {
  NamedTensors out;
  for (const auto& [name, t] : tensors) out.add(name, t.narrow(0, 0, steps).flatten(0, 1));
  return out;
}

}  // namespace shoal
