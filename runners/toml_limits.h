#pragma once

#include <cstdint>
#include <string>

namespace shoal {

inline constexpr std::uint64_t kLargestToml = 1 << 20;  // bytes of a file

// TOML parsers recurse for each part of a dotted key and each nested value. Throws Error, naming
// the file and the line, if there are more of them than any settings have, or if a character beyond
// ASCII is outside of quotes and comments.
void require_flat(const std::string& text, const std::string& file);

// Whether all characters beyond ASCII are in quotes and comments.
bool quotes_beyond_ascii(const std::string& text);

}  // namespace shoal
