#include "runners/toml_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <concepts>
#include <limits>
#include <sstream>
#include <utility>

#include "runners/toml_limits.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"

namespace shoal {
namespace {

void read_value(const std::string& key, const toml::node& node, bool& to) {
  if (!node.is_boolean()) refuse(key, node, "true or false");
  to = **node.as_boolean();
}

void read_value(const std::string& key, const toml::node& node, double& to) {
  if (!node.is_number()) refuse(key, node, "a number");
  // An integer that no double represents exactly is rounded; value<double>() rejects it.
  to = node.is_integer() ? static_cast<double>(**node.as_integer()) : **node.as_floating_point();
  if (std::isnan(to)) refuse(key, node, "a number");
}

// TOML has no integers above 2^63 - 1, and calls 1e6 a floating-point number.
template <std::integral T>
void read_value(const std::string& key, const toml::node& node, T& to) {
  constexpr double kExact = 1LL << 53;
  std::int64_t value = 0;
  if (const auto* real = node.as_floating_point();
      real != nullptr && std::abs(**real) <= kExact && std::trunc(**real) == **real)
    value = static_cast<std::int64_t>(**real);
  else if (node.is_integer())
    value = **node.as_integer();
  else
    refuse(key, node, "a whole number");
  if (!std::in_range<T>(value))
    refuse(key, node, std::is_unsigned_v<T> ? "a whole number, 0 or more" : "a smaller number");
  to = static_cast<T>(value);
}

void read_value(const std::string& key, const toml::node& node, std::vector<std::int64_t>& to) {
  if (!node.is_array()) refuse(key, node, "a list of whole numbers, e.g. [64, 64]");
  std::vector<std::int64_t> read;
  for (const auto& element : *node.as_array()) {
    if (!element.is_integer()) refuse(key, node, "a list of whole numbers, e.g. [64, 64]");
    read.push_back(**element.as_integer());
  }
  to = std::move(read);
}

void read_value(const std::string& key, const toml::node& node, std::vector<std::string>& to) {
  if (!node.is_array()) refuse(key, node, "a list of strings, e.g. [\"image\"]");
  std::vector<std::string> read;
  for (const auto& element : *node.as_array()) {
    if (!element.is_string()) refuse(key, node, "a list of strings, e.g. [\"image\"]");
    shoal::read_value(key, element, read.emplace_back());
  }
  to = std::move(read);
}

void read_value(const std::string& key, const toml::node& node, std::chrono::milliseconds& to) {
  double seconds = 0;
  read_value(key, node, seconds);
  if (seconds <= 0 || seconds > 1e9) refuse(key, node, "seconds above 0");
  to = std::chrono::milliseconds(std::max(1LL, std::llround(seconds * 1000)));
}

void read_value(const std::string& key, const toml::node& node, const Choice& to) {
  std::string expected;
  for (const auto& [name, value] : to.names) {
    if (node.is_string() && **node.as_string() == name) {
      *to.value = value;
      return;
    }
    expected += (expected.empty() ? "" : " or ") + name;
  }
  refuse(key, node, expected);
}

}  // namespace

toml::table parse_toml(const std::string& text, const std::string& file) {
  require_flat(text, file);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    throw Error("{} is not valid TOML, line {}: {}", file, e.source().begin.line,
                one_line(e.description(), 300));
  }
}

// toml++ 3.3 cannot print an array that holds inf or nan.
std::string node_text(const toml::node& node) {
  if (const auto* word = node.as_string()) return word->get();
  if (const auto* number = node.as_floating_point()) return number_as_toml(number->get());
  if (const auto* list = node.as_array()) {
    std::vector<std::string> texts;
    for (const auto& element : *list)
      texts.push_back(element.is_string() ? toml_text(**element.as_string()) : node_text(element));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  if (node.is_table()) return "a table";
  std::ostringstream text;
  text << toml::node_view<const toml::node>(node);
  return text.str();
}

void refuse(const std::string& key, const toml::node& node, const std::string& expected) {
  const auto found = one_line(node_text(node));
  throw Error("{}: found {}, expected {}", key, node.is_string() ? "'" + found + "'" : found,
              expected);
}

void read_value(const std::string& key, const toml::node& node, std::string& to) {
  if (!node.is_string()) refuse(key, node, "a word in quotes");
  const std::string& word = **node.as_string();
  if (word.find('\0') != std::string::npos) refuse(key, node, "a word without a zero byte");
  to = word;
}

namespace {

// The number of a setting that may be infinite, such as `stop_return`: "off" means infinity.
double* number_or_off(const Option& option) {
  auto* const* number = std::get_if<double*>(&option.field);
  return number != nullptr && std::isinf(option.bounds.high) ? *number : nullptr;
}
constexpr const char* kOff = "off";

}  // namespace

void read_value(const toml::node& node, const Option& to) {
  if (auto* number = number_or_off(to); number != nullptr && node.is_string()) {
    if (**node.as_string() != kOff) refuse(to.key, node, "a number or off");
    *number = std::numeric_limits<double>::infinity();
    return;
  }
  std::visit(
      [&]<class Field>(const Field& field) {
        if constexpr (std::is_pointer_v<Field>)
          read_value(to.key, node, *field);
        else
          read_value(to.key, node, field);
      },
      to.field);
}

std::string toml_text(const std::string& value) {
  std::ostringstream text;
  const toml::value<std::string> node(value);
  text << toml::toml_formatter(node, toml::format_flags::none);
  return text.str();
}

std::string toml_text(const Option& option) {
  const auto* number = number_or_off(option);
  if (number != nullptr && *number == std::numeric_limits<double>::infinity())
    return toml_text(std::string(kOff));
  const bool word = std::holds_alternative<std::string*>(option.field) ||
                    std::holds_alternative<Choice>(option.field);
  return word ? toml_text(value_text(option)) : value_text(option);
}

}  // namespace shoal
