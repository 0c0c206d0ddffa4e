#pragma once

#include <cstdint>
#include <string>

namespace shoal {

inline constexpr std::uint64_t kLargestToml = 1 << 20;  // bytes of a file

// TOML parsers recurse for each part of a dotted key and each nested value. Throws Error, naming
// the file and the line, if there are more of them than valid settings have.
void require_flat(const std::string& text, const std::string& file);

}  // namespace shoal
