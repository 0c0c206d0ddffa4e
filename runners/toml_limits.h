#pragma once

#include <cstdint>
#include <string>

namespace shoal {

inline constexpr std::uint64_t kLargestToml = 1 << 20;  // bytes of a file

// A parser of TOML, and whoever walks through what it gives, calls itself for each part of a dotted
// key and each value within another: throws Error, naming the file and the line, if these are more
// than any settings have, or if a character beyond ASCII is outside of quotes and comments.
void require_flat(const std::string& text, const std::string& file);

// Whether all characters beyond ASCII are in quotes and comments.
bool quotes_beyond_ascii(const std::string& text);

}  // namespace shoal
