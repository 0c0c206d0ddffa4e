#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shoal {

enum class DType : std::uint8_t { kUInt8, kBool, kInt32, kInt64, kFloat32, kFloat64 };

std::size_t size_of(DType dtype);  // bytes of one element
const char* name_of(DType dtype);  // "uint8", "float32", ...
double number_at(const std::byte* element, DType dtype);

// Shape and element type of one array of one environment, without the leading [T, B].
struct ArraySpec {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape = {};
  double low = -std::numeric_limits<double>::infinity();  // every element lies in [low, high]
  double high = std::numeric_limits<double>::infinity();
  // The number of newest arrays that form one observation. The environment writes one array; the
  // consumer of the observation forms the stack, oldest first, with zeros before the start of the
  // episode.
  int stack = 1;

  std::int64_t count() const;  // elements of one array
  std::size_t bytes() const;   // bytes of one array
};

// Values by name, in a fixed order. A single array has the name "". Nested dictionaries flatten to
// "a/b".
template <class T>
class Named {
 public:
  using Item = std::pair<std::string, T>;

  Named() = default;
  // A single array is the common case.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Named(T single) { items_.emplace_back("", std::move(single)); }
  Named(std::initializer_list<Item> items) : items_(items) {}

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  bool contains(const std::string& name) const { return find(name) != nullptr; }
  void add(std::string name, T value) { items_.emplace_back(std::move(name), std::move(value)); }

  // Access by position; by name, which must exist (throws std::out_of_range with the name); the
  // only item.
  T& operator[](std::size_t i) { return items_[i].second; }
  const T& operator[](std::size_t i) const { return items_[i].second; }
  T& at(const std::string& name) { return const_cast<T&>(std::as_const(*this).at(name)); }
  const T& at(const std::string& name) const {
    if (const T* found = find(name)) return *found;
    throw std::out_of_range("no field named '" + name + "'");
  }
  const std::string& name(std::size_t i) const { return items_[i].first; }

  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  const T* find(const std::string& name) const {
    for (const auto& [key, value] : items_)
      if (key == name) return &value;
    return nullptr;
  }
  std::vector<Item> items_;
};

using NamedSpecs = Named<ArraySpec>;

// The action space. A composite action has several named parts.
struct ActionSpec {
  enum class Kind : std::uint8_t { kDiscrete, kMultiDiscrete, kBox, kMultiBinary };
  Kind kind = Kind::kDiscrete;
  std::vector<std::int64_t> choices =
      {};                    // discrete: {n}; multi-discrete: {n_0, n_1, ...}; otherwise empty
  std::int64_t dims = 0;     // box: numbers in one action; multi-binary: bits
  double low = 0, high = 0;  // box: bounds of every number

  static ActionSpec discrete(std::int64_t n) { return {.kind = Kind::kDiscrete, .choices = {n}}; }
  static ActionSpec box(std::int64_t dims, double low, double high) {
    return {.kind = Kind::kBox, .dims = dims, .low = low, .high = high};
  }
  bool bounded() const;  // box: whether both bounds are finite
  ArraySpec array()
      const;  // storage of one action: int64 for discrete kinds, float32 for box, bool for bits
};

// How a number reported at every step is reduced to one number per episode.
enum class PerEpisode : std::uint8_t { kNone, kLast, kSum, kMax };

struct InfoSpec {
  std::string name;
  ArraySpec array;
  PerEpisode reduce = PerEpisode::kNone;
};

// The description of an environment for the rest of the program.
struct EnvSpec {
  std::string id;
  NamedSpecs observation;
  Named<ActionSpec> action;
  std::vector<InfoSpec> info =
      {};                    // an entry named "score" with kSum is reported as the episode's return
  bool action_mask = false;  // the environment reports which discrete actions are legal
  double fps = 30;           // steps per second for display
  std::size_t statistics_bytes = 0;  // of Env::statistics()
  // Changes that were made to the environment's own spaces, as sentences for the user.
  std::vector<std::string> notices = {};
};

}  // namespace shoal
