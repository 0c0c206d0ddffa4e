#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// Options on which the meaning of a saved replay depends.
using ReplaySettings = std::vector<std::pair<std::string, double>>;
void save_settings(const ReplaySettings& settings, NamedTensors& to);
// Throws Error if the replay was saved with other settings.
void require_saved_settings(const NamedTensors& from, const ReplaySettings& settings);

// [slices]: the saved value of each slice. If another number of slices was saved, their maximum for
// all: so no random number that a slice has drawn is drawn again.
at::Tensor saved_of_slices(const NamedTensors& from, const std::string& name, std::int64_t slices);

}  // namespace shoal
