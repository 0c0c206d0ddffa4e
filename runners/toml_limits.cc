#include "runners/toml_limits.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "shoal/core/error.h"

namespace shoal {
namespace {

// The end of the string or comment that begins at `at`; at + 1 if there is none.
std::size_t end_of_piece(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (c == '#') return std::min(text.find('\n', at), text.size());
  if (c != '"' && c != '\'') return at + 1;
  const bool block = text.substr(at, 3) == std::string(3, c);
  const std::string_view quote = text.substr(at, block ? 3 : 1);
  for (std::size_t i = at + quote.size(); i < text.size(); ++i) {
    if (c == '"' && text[i] == '\\')
      ++i;
    else if (text.substr(i, quote.size()) == quote)
      return i + quote.size();
    else if (!block && text[i] == '\n')
      return i;
  }
  return text.size();
}

}  // namespace

void require_flat(const std::string& text, const std::string& file) {
  constexpr int kMostParts = 16, kDeepest = 16;
  int dots = 0, depth = 0, line = 1;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = end_of_piece(text, at);
    const char c = text[at];
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                        text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    if (c == '.') ++dots;
    if (c == '\n' || c == '=' || c == ',' || c == '{') dots = 0;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth = std::max(depth - 1, 0);
    require(dots < kMostParts, "{}, line {}: a key has more than {} parts", file, line, kMostParts);
    require(depth <= kDeepest, "{}, line {}: values are nested more than {} deep", file, line,
            kDeepest);
  }
}

}  // namespace shoal
