#include "runners/setting_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>

#include "runners/setting_values.h"
#include "runners/settings.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"

namespace shoal {
namespace {

constexpr std::size_t kLongestList = 1000;

// Also of integers above 2^53, which a double does not hold exactly: no range ends between those.
template <class T>
requires(std::integral<T> || std::floating_point<T>) bool is_in(const Range& range, T value) {
  return range.includes(static_cast<double>(value));
}
bool is_in(const Range& range, std::chrono::milliseconds value) {
  return range.includes(static_cast<double>(value.count()) / 1000);
}
bool is_in(const Range& range, const std::string& word) {
  return range.includes(static_cast<double>(word.size()));
}
bool is_in(const Range& range, const std::vector<std::int64_t>& list) {
  return list.size() <= kLongestList &&
         std::ranges::all_of(list, [&](auto element) { return is_in(range, element); });
}

template <class T>
std::string found_text(const T& value) {
  return one_line(toml_text(value));
}
std::string found_text(const std::string& word) { return fmt::format("'{}'", one_line(word)); }

std::string bounds_text(const Range& range) {
  const auto high = number_text(range.high);
  return range.above ? fmt::format("above 0 and at most {}", high)
                     : fmt::format("{} to {}", number_text(range.low), high);
}

template <class T>
std::string expected_text(const Range& range, const T&) {
  return bounds_text(range);
}
std::string expected_text(const Range& range, const std::string&) {
  return fmt::format("at most {:.0f} bytes", range.high);
}
std::string expected_text(const Range& range, const std::vector<std::int64_t>&) {
  return fmt::format("at most {} numbers, each of them {}", kLongestList, bounds_text(range));
}

template <class T>
void check(const char* key, const T& value, const Range& range) {
  if (!is_in(range, value))
    throw Error("{}: found {}, expected {}", key, found_text(value), expected_text(range, value));
}

// Enumerations and true or false have no range.
template <class T>
concept Ranged = requires(T value) {
  default_range(value);
}
&&!std::same_as<T, bool> && !NamedEnum<T>;

}  // namespace

void check_ranges(const Config& config) {
  visit_settings(config, []<class T>(const char* key, const T& value, const char*, auto... range) {
    if constexpr (sizeof...(range) > 0)
      check(key, value, range...);
    else if constexpr (Ranged<T>)
      check(key, value, default_range(value));
  });
}

}  // namespace shoal
