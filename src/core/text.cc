#include "shoal/core/text.h"

#include <fmt/format.h>

#include <algorithm>
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
                               1);  // distances of a's first i characters to each beginning of b
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

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
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

std::string number_text(double number, int digits) {
  const bool whole = std::floor(number) == number && std::abs(number) < 1e15;
  return whole ? fmt::format("{:.0f}", number) : fmt::format("{:.{}g}", number, digits);
}

}  // namespace shoal
