#include "shoal/core/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/core/option_range.h"

namespace shoal {
namespace {

constexpr std::size_t kLongestList = 1000;

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

double seconds_of(std::chrono::milliseconds value) {
  return static_cast<double>(value.count()) / 1000;
}

// Integers above 2^53 are rounded to a double; no bound lies between the two.
bool is_in_range(const Option& option) {
  const auto& bounds = option.bounds;
  return std::visit(
      Overloaded{[](const Choice&) { return true; }, [](const bool*) { return true; },
                 [&](const std::string* word) {
                   return bounds.includes(static_cast<double>(word->size()));
                 },
                 [&](const std::vector<std::int64_t>* list) {
                   return list->size() <= kLongestList &&
                          std::ranges::all_of(*list, [&](auto element) {
                            return bounds.includes(static_cast<double>(element));
                          });
                 },
                 [&](const std::vector<std::string>* list) {
                   return list->size() <= kLongestList &&
                          std::ranges::all_of(*list, [&](const auto& word) {
                            return bounds.includes(static_cast<double>(word.size()));
                          });
                 },
                 [&](const std::chrono::milliseconds* value) {
                   return bounds.includes(seconds_of(*value));
                 },
                 [&](const auto* number) { return bounds.includes(static_cast<double>(*number)); }},
      option.field);
}

std::string found_text(const Option& option) {
  const auto text = one_line(value_text(option));
  return std::holds_alternative<std::string*>(option.field) ? fmt::format("'{}'", text) : text;
}

// A basic string of TOML.
std::string quoted_as_toml(const std::string& word) {
  std::string text = "\"";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      text += fmt::format("\\{}", c);
    else if (byte < 0x20 || byte == 0x7F)
      text += fmt::format("\\u{:04X}", byte);
    else
      text += c;
  }
  return text + '"';
}

}  // namespace

void check_ranges(const OptionList& options) {
  for (const auto& option : options)
    require(is_in_range(option), "{}: found {}, expected {}", option.key, found_text(option),
            range_text(option));
}

std::string range_text(const Option& option) {
  const auto& bounds = option.bounds;
  if (std::holds_alternative<std::string*>(option.field))
    return fmt::format("at most {:.0f} bytes", bounds.high);
  if (std::holds_alternative<std::vector<std::string>*>(option.field))
    return fmt::format("at most {} strings, each of at most {:.0f} bytes", kLongestList,
                       bounds.high);
  const auto high = number_text(bounds.high);
  const auto text = bounds.above
                        ? fmt::format("above {} and at most {}", number_text(bounds.low), high)
                        : fmt::format("{} to {}", number_text(bounds.low), high);
  if (std::holds_alternative<std::vector<std::int64_t>*>(option.field))
    return fmt::format("at most {} numbers, each of them {}", kLongestList, text);
  return text;
}

std::string number_as_toml(double value) {
  std::string text = fmt::format("{}", value);  // the shortest text that parses to the same value
  // TOML floats need a point or an exponent.
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

std::string value_text(const Option& option) {
  return std::visit(
      Overloaded{
          [](const Choice& choice) {
            const auto name = std::ranges::find(choice.names, *choice.value,
                                                &std::pair<std::string, std::uint8_t>::second);
            if (name == choice.names.end())
              throw std::logic_error("an enumeration value without a name");
            return name->first;
          },
          [](const std::string* word) { return *word; },
          [](const double* number) { return number_as_toml(*number); },
          [](const std::chrono::milliseconds* value) { return number_as_toml(seconds_of(*value)); },
          [](const std::vector<std::int64_t>* list) {
            return fmt::format("[{}]", fmt::join(*list, ", "));
          },
          [](const std::vector<std::string>* list) {
            std::vector<std::string> quoted;
            for (const auto& word : *list) quoted.push_back(quoted_as_toml(word));
            return fmt::format("[{}]", fmt::join(quoted, ", "));
          },
          [](const auto* value) { return fmt::format("{}", *value); }},
      option.field);
}

}  // namespace shoal
