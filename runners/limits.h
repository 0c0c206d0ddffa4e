#pragma once

#include <cstdint>

namespace shoal {

// Steps that are counted exactly in a double, too, where rates and shares are formed of them.
inline constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;
inline constexpr std::int64_t kMostRanks = 1024;

}  // namespace shoal
