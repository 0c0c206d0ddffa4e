#pragma once

#include <cstdint>
#include <string>

#include "shoal/data/samples.h"

namespace shoal {

// [slices]: the saved value of each slice. If another number of slices was saved, their maximum for
// all: so no random number that a slice has drawn is drawn again.
at::Tensor saved_of_slices(const NamedTensors& from, const std::string& name, std::int64_t slices);

}  // namespace shoal
