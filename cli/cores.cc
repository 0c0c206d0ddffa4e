#include "cli/cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"

namespace shoal::cli {
namespace {

constexpr int kMost = 1 << 16;  // no machine has more cores

// -1 unless all of `part` is a number.
int number_of(const std::string& part) {
  int number = -1;
  const auto* end = part.data() + part.size();
  const auto [rest, error] = std::from_chars(part.data(), end, number);
  return error == std::errc() && rest == end && number < kMost ? number : -1;
}

// "3" or "3-5"; otherwise empty.
std::vector<int> range_of(const std::string& part) {
  const auto dash = part.find('-');
  const int first = number_of(part.substr(0, dash));
  const int last = dash == std::string::npos ? first : number_of(part.substr(dash + 1));
  std::vector<int> cores;
  for (int core = first; first >= 0 && core <= last; ++core) cores.push_back(core);
  return cores;
}

std::vector<int> listed(const std::string& text) {
  std::vector<int> cores;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto range = range_of(part);
    require(!range.empty(),
            "cores: found '{}', expected a number of cores, or a list such as 0-3,6", text);
    cores.insert(cores.end(), range.begin(), range.end());
  }
  std::ranges::sort(cores);
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

}  // namespace

std::vector<int> parse_cores(const std::string& text) {
  const auto allowed = allowed_cores();
  const int count = number_of(text);
  require(count != 0 && count <= std::ssize(allowed),
          "cores: found {}, expected 1 to {}: this process may use {}", count, allowed.size(),
          cores_text(allowed));
  if (count > 0) return {allowed.begin(), allowed.begin() + count};
  auto cores = listed(text);
  require(!cores.empty(),
          "cores: found nothing, expected a number of cores, or a list such as 0-3,6");
  for (const int core : cores)
    require(std::ranges::binary_search(allowed, core),
            "cores: found {}, expected cores that this process may use: {}", core,
            cores_text(allowed));
  return cores;
}

std::string cores_text(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cores[i]) : fmt::format("{}-{}", cores[i], cores[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace shoal::cli
