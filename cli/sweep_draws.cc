#include "cli/sweep_draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/core/text.h"

namespace shoal::cli {
namespace {

constexpr std::size_t kMostVariants = 10'000;
constexpr std::size_t kLongestName = 200;  // in bytes

using Choices = std::vector<std::pair<std::string, const toml::node*>>;  // by dotted key

bool is_range(const toml::node& node) {
  const auto* table = node.as_table();
  return table != nullptr && table->contains("low") && table->contains("high");
}

void collect(const std::string& prefix, const toml::table& table, Choices& choices) {
  for (const auto& [name, node] : table) {
    const auto key = prefix + std::string(name.str());
    if (node.is_table() && !is_range(node))
      collect(key + ".", *node.as_table(), choices);
    else
      choices.emplace_back(key, &node);
  }
}

const toml::array& list_of(const std::string& key, const toml::node& node) {
  const auto* list = node.as_array();
  if (list == nullptr || list->empty()) refuse(key, node, "a list of values, e.g. [0.1, 0.2]");
  return *list;
}

// "[64, 64]" -> "64x64", as a part of a folder's name.
std::string short_text(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == ',') text += 'x';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '+' ||
        c == '_')
      text += c;
  }
  return text;
}

void add(std::pair<std::string, Settings>& variant, const std::string& key,
         const std::string& value, bool& named) {
  // The base's name stands for the variant that has no settings of its own.
  variant.first += fmt::format("{}{}={}", named ? "," : "-", key, short_text(value));
  named = true;
  variant.second.emplace_back(key, value);
}

// toml++ gives no double for an integer that would be rounded.
double number_in(const std::string& key, const toml::table& range, const char* end) {
  const auto& node = *range.get(end);
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !std::isfinite(*value))
    refuse(fmt::format("random.{}.{}", key, end), node, "a number (a whole one up to 2^53)");
  return *value;
}

bool is_logarithmic(const std::string& key, const toml::table& range) {
  const auto* node = range.get("log");
  if (node == nullptr) return false;
  if (!node->is_boolean()) refuse(fmt::format("random.{}.log", key), *node, "true or false");
  return **node->as_boolean();
}

// Rounds to the fewest digits, at least three, whose error is below 1/200 of `width`; the name of
// the run repeats them.
std::string rounded(double number, double low, double high, double width) {
  constexpr double kParts = 200;
  for (int digits = 3;; ++digits) {
    auto text = fmt::format("{:.{}g}", number, digits);
    const double value = std::strtod(text.c_str(), nullptr);
    const bool near = std::abs(value - number) <= width / kParts && low <= value && value <= high;
    if (near || digits == std::numeric_limits<double>::max_digits10) return text;
  }
}

// A whole number if both ends are whole.
std::string draw_from(const std::string& key, const toml::table& range, Rng& rng) {
  for (const auto& [name, node] : range)
    require(name == "low" || name == "high" || name == "log",
            "random.{}: found '{}', expected low, high and log", key, one_line(name.str()));
  const double low = number_in(key, range, "low"), high = number_in(key, range, "high");
  const bool log = is_logarithmic(key, range);
  require(low < high && (!log || low > 0),
          "random.{}: found {} to {}, expected the first to be smaller{}", key, low, high,
          log ? ", and above 0" : "");
  const bool whole = range["low"].is_integer() && range["high"].is_integer();
  if (whole && !log)
    return fmt::format(
        "{}", rng.integer(static_cast<std::int64_t>(low), static_cast<std::int64_t>(high) + 1));
  const double drawn =
      log ? std::exp(rng.uniform(std::log(low), std::log(high))) : rng.uniform(low, high);
  if (whole) return fmt::format("{}", std::lround(drawn));
  const double number = std::clamp(drawn, low, high);
  return rounded(number, low, high, log ? number * std::log(high / low) : high - low);
}

void require_short(const char* table, const std::string& variant) {
  require(variant.size() <= kLongestName,
          "{}: found a folder name of {} bytes, made of the settings; expected at most {}: give "
          "fewer settings in [grid] and [random]",
          table, variant.size(), kLongestName);
}

}  // namespace

std::int64_t whole_number(const std::string& name, const toml::table& table, const char* key,
                          std::optional<std::int64_t> otherwise, const Bounds& bounds) {
  std::int64_t value = otherwise.value_or(0);
  OptionList number(name);
  number.add(key, value, "", bounds);
  const auto* node = table.get(key);
  require(node != nullptr || otherwise, "{}.{}: found none, expected a whole number", name, key);
  if (node != nullptr) read_value(*node, *number.begin());
  check_ranges(number);
  return value;
}

void require_folder_name(const std::string& variant) {
  const bool plain = std::ranges::none_of(
      variant, [](char c) { return c == '/' || std::iscntrl(static_cast<unsigned char>(c)) != 0; });
  require(plain && !variant.empty() && variant[0] != '.' && variant.size() <= kLongestName,
          "variant.{}: expected a name of 1 to {} bytes without '/', control characters or a "
          "leading dot: it names a folder",
          one_line(variant), kLongestName);
}

Variants with_grid(const Variants& variants, const toml::table& grid) {
  Choices choices;
  collect("", grid, choices);
  std::vector<std::size_t> place(choices.size(), 0);  // the last one changes first
  Variants all;
  for (const auto& variant : variants) {
    for (bool more = true; more;) {
      auto next = variant;
      bool named = false;
      for (std::size_t i = 0; i < choices.size(); ++i) {
        const auto& [key, node] = choices[i];
        add(next, key, node_text(*list_of("grid." + key, *node).get(place[i])), named);
      }
      require_short("grid", next.first);
      all.push_back(std::move(next));
      require(all.size() <= kMostVariants, "grid: found more than {} combinations", kMostVariants);
      more = false;
      for (auto i = choices.size(); i-- > 0 && !more;) {
        more = ++place[i] < choices[i].second->as_array()->size();
        if (!more) place[i] = 0;
      }
    }
  }
  return all;
}

Variants with_draws(const Variants& variants, const toml::table& random) {
  const auto draws = whole_number("random", random, "draws", {}, within(1, kMostVariants)),
             seed = whole_number("random", random, "seed", 1, kAnyNumber);
  require(static_cast<std::size_t>(draws) * variants.size() <= kMostVariants,
          "random.draws: found {} for each of {} variants, expected at most {} in all", draws,
          variants.size(), kMostVariants);
  Choices choices;
  collect("", random, choices);
  std::erase_if(choices, [](const auto& c) { return c.first == "draws" || c.first == "seed"; });
  require(!choices.empty(), "random: found no setting, expected lists or ranges of values");
  Variants all;
  for (const auto& variant : variants)
    for (std::int64_t i = 0; i < draws; ++i) {
      Rng rng(env_seed(static_cast<std::uint64_t>(seed), Stream::kTrain, i));
      auto next = variant;
      bool named = false;
      for (const auto& [key, node] : choices) {
        if (is_range(*node)) {
          add(next, key, draw_from(key, *node->as_table(), rng), named);
          continue;
        }
        const std::string name = "random." + key;
        const auto& list = list_of(name, *node);
        const auto chosen = rng.integer(0, static_cast<std::int64_t>(list.size()));
        add(next, key, node_text(*list.get(static_cast<std::size_t>(chosen))), named);
      }
      require_short("random", next.first);
      const bool again =
          std::ranges::any_of(all, [&](const auto& other) { return other.first == next.first; });
      if (!again) all.push_back(std::move(next));
    }
  return all;
}

}  // namespace shoal::cli
