#pragma once

#include <cstdint>
#include <istream>
#include <string_view>

#include "shoal/runners/checkpoint.h"

namespace shoal {

inline constexpr std::string_view kCheckpointMagic = "SHOALCK1";
inline constexpr std::uint64_t kLargestHeader = std::uint64_t{1} << 28;

// The CRC-32 of `bytes`, continued from `before`, the CRC-32 of the preceding bytes.
std::uint32_t checksum(std::uint32_t before, std::string_view bytes);

// Reads a checkpoint of `size` bytes from the start of a seekable stream. Throws Error if it is
// damaged or not a checkpoint.
Checkpoint read_checkpoint(std::istream& in, std::uint64_t size);
Named<std::int64_t> read_counters(std::istream& in, std::uint64_t size);

}  // namespace shoal
