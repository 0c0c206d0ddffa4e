#pragma once

#include <cstdint>
#include <istream>
#include <string_view>

#include "shoal/runners/checkpoint.h"

namespace shoal {

inline constexpr std::string_view kCheckpointMagic = "SHOALCK1";
inline constexpr std::uint64_t kLargestHeader = std::uint64_t{1} << 28;

// The CRC-32 of what it was `before` and of `bytes` behind that.
std::uint32_t checksum(std::uint32_t before, std::string_view bytes);

// A checkpoint of `size` bytes, from the beginning of a stream that can be rewound. Throws
// Error if it is damaged or no checkpoint.
Checkpoint read_checkpoint(std::istream& in, std::uint64_t size);

}  // namespace shoal
