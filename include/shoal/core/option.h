#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace shoal {

// Bounds of a number, both included, but the lower one is excluded where `above` is set. NaN is in
// no bounds. Of a list they bound each element, of a duration its seconds, of a word its bytes.
struct Bounds {
  double low, high;
  bool above = false;

  bool includes(double number) const {
    return (above ? number > low : number >= low) && number <= high;
  }
};

// Steps up to this are exact in a double, in which rates and fractions of them are computed.
inline constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;
inline constexpr double kMostNumber = 1e9;  // where nothing suggests a smaller bound

constexpr Bounds within(double low, double high) { return {low, high}; }
constexpr Bounds above_0(double high = kMostNumber) { return {0, high, true}; }
inline constexpr Bounds kShare{0, 1};         // a fraction or a probability
inline constexpr Bounds kRate{0, 1e6, true};  // a learning rate
inline constexpr Bounds kCount{1, kMostSteps};
inline constexpr Bounds kAnySign{-kMostNumber, kMostNumber};
inline constexpr Bounds kAnyNumber{-std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::infinity()};

// An enumeration of one byte, and the names of its values. The enumeration says them itself:
// `names_of(E)`, found beside it, gives pairs of a name and a value.
struct Choice {
  std::uint8_t* value;
  std::vector<std::pair<std::string, std::uint8_t>> names;
};

// One field of an options struct: everything that files, the command line, error messages and other
// languages have to know of it.
struct Option {
  using Field = std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*,
                             std::vector<std::int64_t>*, std::chrono::milliseconds*, Choice>;
  std::string key;  // with its table: "ppo.clip"
  Field field;      // in the struct that was described
  std::string doc;  // one line: meaning and unit
  Bounds bounds;    // not of bool and Choice
};

// The options of a struct, bound to it, in the order in which they are shown. A struct `O` that is
// described has a function `OptionList describe(O&)` beside it.
class OptionList {
 public:
  explicit OptionList(std::string table = "") : prefix_(table.empty() ? "" : table + ".") {}

  template <class T>
  void add(const char* name, T& field, std::string doc) {
    add(name, field, std::move(doc), default_bounds<T>());
  }
  template <class T>
  void add(const char* name, T& field, std::string doc, const Bounds& bounds) {
    options_.push_back({prefix_ + name, bind(field), std::move(doc), bounds});
  }
  void append(OptionList other) {
    for (auto& option : other.options_) options_.push_back(std::move(option));
  }

  auto begin() const { return options_.begin(); }
  auto end() const { return options_.end(); }

 private:
  template <class T>
  static Option::Field bind(T& field) {
    if constexpr (std::is_enum_v<T>) {
      static_assert(sizeof(T) == 1);
      Choice choice{reinterpret_cast<std::uint8_t*>(&field), {}};
      for (const auto& [name, value] : names_of(field))
        choice.names.emplace_back(name, static_cast<std::uint8_t>(value));
      return choice;
    } else {
      return &field;
    }
  }
  template <class T>
  static Bounds default_bounds() {
    if constexpr (std::same_as<T, double>) return {0, kMostNumber};
    if constexpr (std::same_as<T, std::chrono::milliseconds>) return above_0();
    if constexpr (std::same_as<T, std::string>) return {0, 4096};
    return {0, kMostSteps};
  }

  std::string prefix_;
  std::vector<Option> options_;
};

// Throws Error for the first option that is not in its range: "ppo.clip: found -1.0, expected ...".
void check_ranges(const OptionList& options);

// The same of a struct that is described; constructors call it.
template <class Options>
void check_options(Options options) {
  check_ranges(describe(options));
}

// The value as TOML has it, except that words are without quotes.
std::string value_text(const Option& option);
std::string number_as_toml(double value);

}  // namespace shoal
