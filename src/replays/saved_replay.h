#pragma once

#include <cstdint>
#include <string>

#include "shoal/data/samples.h"

namespace shoal {

// [slices]: what has been saved of each slice. If there were another number of them, the largest
// one for all: random numbers that any of them has drawn do not come again.
at::Tensor saved_of_slices(const NamedTensors& from, const std::string& name, std::int64_t slices);

}  // namespace shoal
