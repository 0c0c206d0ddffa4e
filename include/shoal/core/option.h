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

// Bounds of a number: [low, high], or (low, high] with `above`. NaN is outside all bounds. For a
// list, of at most 1000 elements, they apply to each, for a duration to its seconds, for a string
// to its length in bytes.
struct Bounds {
  double low, high;
  bool above = false;

  bool includes(double number) const {
    return (above ? number > low : number >= low) && number <= high;
  }
};

// Step counts up to this are exact in a double, in which rates and fractions of them are computed.
inline constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;
inline constexpr double kMostNumber = 1e9;  // the default upper bound

constexpr Bounds within(double low, double high) { return {low, high}; }
constexpr Bounds above_0(double high = kMostNumber) { return {0, high, true}; }
inline constexpr Bounds kShare{0, 1};         // a fraction or a probability
inline constexpr Bounds kRate{0, 1e6, true};  // a learning rate
inline constexpr Bounds kCount{1, kMostSteps};
inline constexpr Bounds kAnySign{-kMostNumber, kMostNumber};
inline constexpr Bounds kAnyNumber{-std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::infinity()};

// A one-byte enumeration and the names of its values. The enumeration provides `names_of(E)`, found
// by argument-dependent lookup, which returns pairs of a name and a value.
struct Choice {
  std::uint8_t* value;
  std::vector<std::pair<std::string, std::uint8_t>> names;
};

// One field of an options struct, as configuration files, the command line, error messages and
// language bindings need it.
struct Option {
  using Field = std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*,
                             std::vector<std::int64_t>*, std::vector<std::string>*,
                             std::chrono::milliseconds*, Choice>;
  std::string key;  // with its table: "ppo.clip"
  Field field;      // points into the described struct
  std::string doc;  // one line: meaning and unit
  Bounds bounds;    // unused for bool and Choice
};

// The options of a struct, bound to its fields, in display order. A struct `O` is described by a
// function `OptionList describe(O&)` beside it.
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
    if constexpr (std::same_as<T, std::string> || std::same_as<T, std::vector<std::string>>)
      return {0, 4096};
    return {0, kMostSteps};
  }

  std::string prefix_;
  std::vector<Option> options_;
};

// Throws Error for the first option out of range: "ppo.clip: found -1.0, expected ...".
void check_ranges(const OptionList& options);

// The same for a struct with describe(); constructors call it.
template <class Options>
void check_options(Options options) {
  check_ranges(describe(options));
}

// The value in TOML syntax, but a single string has no quotes.
std::string value_text(const Option& option);
std::string number_as_toml(double value);

}  // namespace shoal
