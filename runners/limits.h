#pragma once

#include <cstdint>

namespace shoal {

inline constexpr std::int64_t kMostRanks = 1024;

}  // namespace shoal
