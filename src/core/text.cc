#include "shoal/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/locale/utf.hpp>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace shoal {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() +
                               1);  // distances of a's first i characters to each prefix of b
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The end of the UTF-8 character that begins at `at`; `at` itself if it is invalid.
const char* end_of_character(const char* at, const char* end) {
  namespace utf = boost::locale::utf;
  const char* next = at;
  return utf::is_valid_codepoint(utf::utf_traits<char>::decode(next, end)) ? next : at;
}

}  // namespace

std::string nearest(const std::string& long_word, const std::vector<std::string>& known) {
  constexpr std::size_t kMost = 200;
  const std::string word = long_word.substr(0, kMost);
  std::string best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : known) {
    const std::size_t d = distance(word, candidate);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

std::string one_line(std::string_view text, std::size_t most) {
  std::string line(text.substr(0, most));
  const auto is_inside = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  if (text.size() > most) {  // cut at a UTF-8 character boundary
    while (!line.empty() && is_inside(text[line.size()])) line.pop_back();
    line += "...";
  }
  for (char& c : line) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) c = ' ';
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
  }
  const char* const end = line.data() + line.size();
  for (char* at = line.data(); at != end;) {
    const auto* next = end_of_character(at, end);
    if (next == at) *at = '?';
    at += std::max<std::ptrdiff_t>(next - at, 1);
  }
  return line;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_@%+=:,./-";
  const bool plain = std::ranges::all_of(text, [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || std::isalnum(byte) != 0 || kPlain.find(c) != kPlain.npos;
  });
  if (plain && !text.empty()) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return word + "'";
}

std::string number_text(double number, int digits) {
  const bool whole = std::floor(number) == number && std::abs(number) < 1e15;
  return whole ? fmt::format("{:.0f}", number) : fmt::format("{:.{}g}", number, digits);
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

}  // namespace shoal
