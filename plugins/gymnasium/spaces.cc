#include "spaces.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "conversion.h"
#include "shoal/core/error.h"

namespace shoal::python {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// From here on a bound means "none": the largest float32 or float64, for example.
constexpr double kNoBound = 1e30;

bool is_a(const py::object& space, const char* kind) {
  return py::isinstance(space, py::module_::import("gymnasium").attr("spaces").attr(kind));
}

std::string quoted(const std::string& name) {
  return name.empty() ? "" : fmt::format("'{}' ", name);
}

[[noreturn]] void refuse(const py::object& space, const std::string& name) {
  if (is_a(space, "Box") || is_a(space, "Discrete") || is_a(space, "MultiDiscrete"))
    throw Error("the space {}is a {} with elements of an unsupported dtype", quoted(name),
                std::string(py::str(space)));
  throw Error(
      "the space {}is a {}, which does not fit into arrays of a fixed size; a wrapper in Python "
      "can turn it into a Box",
      quoted(name), std::string(py::str(space)));
}

// Whether a space is made of arrays of a fixed size.
bool fits_arrays(const py::object& space) {
  for (const char* kind : {"Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple"})
    if (is_a(space, kind)) return true;
  return false;
}

// The shape of a space, or of the values of several environments.
std::vector<py::ssize_t> shape_of(const py::object& space, std::size_t envs = 0) {
  auto shape = space.attr("shape").cast<std::vector<py::ssize_t>>();
  if (envs > 0) shape.insert(shape.begin(), static_cast<py::ssize_t>(envs));
  return shape;
}

// Returns a callable without arguments that makes arrays for a space. Throws unless the elements
// have one of these types.
py::object maker_of(const py::object& space, std::size_t envs, const std::string& name,
                    std::initializer_list<std::string_view> types) {
  const auto type = std::string(py::str(space.attr("dtype")));
  if (std::ranges::find(types, type) == types.end()) refuse(space, name);
  return py::module_::import("functools")
      .attr("partial")(numpy("empty"), py::tuple(py::cast(shape_of(space, envs))),
                       space.attr("dtype"));
}

std::size_t element_size(const py::object& space) {
  return space.attr("dtype").attr("itemsize").cast<std::size_t>();
}

// A new array of `count` elements of type T, filled with value(i).
template <class T, class Value>
py::object filled(const py::object& empty, std::size_t count, Value value) {
  auto array = py::reinterpret_borrow<py::array>(empty());
  auto* to = static_cast<T*>(array.mutable_data());
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(value(i));
  return array;
}

std::string part_name(const std::string& whole, const py::object& key) {
  const auto part = std::string(py::str(key));
  require(!part.empty() && part[0] != ' ' && part.find('\n') == std::string::npos,
          "a Dict has the key {}, expected a name of one line that does not begin with a space",
          std::string(py::repr(key)));
  return whole.empty() ? part : fmt::format("{}/{}", whole, part);
}

// The keys of a Dict or the indices of a Tuple; empty for other spaces.
std::vector<py::object> keys_of(const py::object& space) {
  std::vector<py::object> keys;
  if (is_a(space, "Dict"))
    for (const auto& key : space.attr("spaces"))
      keys.push_back(py::reinterpret_borrow<py::object>(key));
  if (is_a(space, "Tuple"))
    for (std::size_t i = 0; i < py::len(space); ++i) keys.push_back(py::int_(i));
  return keys;
}

// The elements of a numeric array.
template <class T>
std::vector<T> all(const py::object& array) {
  const auto elements = py::array_t<T, py::array::c_style | py::array::forcecast>::ensure(array);
  return {elements.data(), elements.data() + elements.size()};
}

std::size_t product(const std::vector<py::ssize_t>& shape) {
  std::size_t count = 1;
  for (const auto size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

// The narrowest supported dtype that represents every value; "" if there is none.
std::string stored_type(const std::string& type) {
  if (type == "int8" || type == "int16" || type == "uint16") return "int32";
  if (type == "uint32") return "int64";
  if (type == "float16") return "float32";
  constexpr const char* kSame[] = {"uint8", "bool", "int32", "int64", "float32", "float64"};
  return std::ranges::find(kSame, type) == std::end(kSame) ? "" : type;
}

// The minimum and maximum of all bounds; a space without numbers has none.
std::pair<double, double> range_of(const std::vector<double>& low,
                                   const std::vector<double>& high) {
  if (low.empty()) return {-kInfinity, kInfinity};
  return {std::ranges::min(low), std::ranges::max(high)};
}

}  // namespace

ObservationSpace::ObservationSpace(const py::object& space, std::size_t envs) : envs_(envs) {
  add(space, "", {});
  if (arrays_.empty() && left_out_) refuse(left_out_, left_out_name_);
}

void ObservationSpace::add(const py::object& space, const std::string& name,
                           std::vector<py::object> keys) {
  if (is_a(space, "Dict") || is_a(space, "Tuple")) {
    for (const auto& key : keys_of(space)) {
      const py::object part = space[key];
      const auto part_of_name = part_name(name, key);
      if (!fits_arrays(part)) {
        leave_out(part, part_of_name);
        continue;
      }
      auto path = keys;
      path.push_back(key);
      add(part, part_of_name, std::move(path));
    }
    return;
  }
  std::string type = "int64";
  double low = 0, high = 1;
  std::vector<std::int64_t> lowest, highest;
  if (is_a(space, "Box")) {
    type = stored_type(std::string(py::str(space.attr("dtype"))));
    std::tie(low, high) = range_of(all<double>(space.attr("low")), all<double>(space.attr("high")));
  } else if (is_a(space, "Discrete")) {
    lowest = {space.attr("start").cast<std::int64_t>()};
    highest = {lowest[0] + (space.attr("n").cast<std::int64_t>() - 1)};
  } else if (is_a(space, "MultiDiscrete")) {
    lowest = all<std::int64_t>(space.attr("start"));
    highest = all<std::int64_t>(space.attr("nvec"));
    for (std::size_t i = 0; i < highest.size(); ++i) highest[i] += lowest[i] - 1;
  } else if (is_a(space, "MultiBinary")) {
    type = "bool";
  } else {
    refuse(space, name);
  }
  if (type.empty()) refuse(space, name);
  if (!lowest.empty())
    std::tie(low, high) =
        range_of({lowest.begin(), lowest.end()}, {highest.begin(), highest.end()});
  const auto one = shape_of(space), shape = shape_of(space, envs_);  // () for a Discrete
  const auto dtype = py::dtype(type);
  description_ += fmt::format("observation {} {} {} {} {} {}\n", type, low, high, one.size(),
                              fmt::join(one, " "), name);
  // A MultiBinary has dtype int8 and holds only 0 and 1.
  const auto declared =
      type == "bool" || is_a(space, "Discrete") ? dtype : py::dtype::from_args(space.attr("dtype"));
  const auto what = name.empty() ? "the observation" : fmt::format("the observation '{}'", name);
  arrays_.push_back({what, std::move(keys), envs_ == 0 && is_a(space, "Discrete"), declared, dtype,
                     declared.equal(dtype), shape,
                     static_cast<std::size_t>(dtype.itemsize()) * product(shape), std::move(lowest),
                     std::move(highest)});
}

void ObservationSpace::leave_out(const py::object& space, const std::string& name) {
  description_ += fmt::format("notice the observation '{}' is left out: a {} has no fixed size\n",
                              name, type_name(space));
  left_out_ = space;
  left_out_name_ = name;
}

std::vector<std::size_t> ObservationSpace::sizes() const {
  std::vector<std::size_t> all;
  for (const auto& array : arrays_) all.push_back(array.bytes);
  return all;
}

void ObservationSpace::write(const py::object& observation, std::uint8_t* const* to) const {
  for (const auto& array : arrays_)
    array.copy(array.keys.empty() ? observation : array.part_of(observation), *to++);
}

py::object ObservationSpace::Array::part_of(const py::object& observation) const {
  py::object part = observation;
  for (const auto& key : keys) {
    auto inner = py::reinterpret_steal<py::object>(PyObject_GetItem(part.ptr(), key.ptr()));
    if (!inner) {
      PyErr_Clear();
      const auto found =
          py::isinstance<py::dict>(part)
              ? fmt::format("a dict with the keys {}", std::string(py::str(py::list(part))))
              : describe(part);
      throw Error("{} is missing: {} was looked up in {}", what, std::string(py::repr(key)), found);
    }
    part = std::move(inner);
  }
  return part;
}

void ObservationSpace::Array::copy(const py::object& value, std::uint8_t* to) const {
  if (number) {
    const auto n = to_integer(value, what);
    check_choices(&n, 1);
    std::memcpy(to, &n, sizeof(n));
    return;
  }
  auto array = py::reinterpret_borrow<py::array>(value);
  const bool as_stored = same && py::isinstance<py::array>(value) && array.dtype().is(stored) &&
                         (array.flags() & py::array::c_style) != 0;
  if (!as_stored) array = to_stored(value, declared, stored, what);
  if (!std::equal(shape.begin(), shape.end(), array.shape(), array.shape() + array.ndim()))
    throw Error("{} has the shape ({}), expected ({}) as in its space", what,
                fmt::join(array.shape(), array.shape() + array.ndim(), ", "),
                fmt::join(shape, ", "));
  if (!lowest.empty())
    check_choices(static_cast<const std::int64_t*>(array.data()), bytes / sizeof(std::int64_t));
  std::memcpy(to, array.data(), bytes);
}

void ObservationSpace::Array::check_choices(const std::int64_t* numbers, std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    const auto k = i % lowest.size();
    require(numbers[i] >= lowest[k] && numbers[i] <= highest[k],
            "{} has the number {}, expected {} to {} as in its space", what, numbers[i], lowest[k],
            highest[k]);
  }
}

ActionSpace::ActionSpace(const py::object& space, std::size_t envs) : envs_(envs) {
  add(space, "");
  if (is_a(space, "Discrete")) single_choice_ = space.attr("n").cast<std::int64_t>();
}

void ActionSpace::add(const py::object& space, const std::string& name) {
  Node node;
  if (is_a(space, "Dict") || is_a(space, "Tuple")) {
    node.kind = is_a(space, "Dict") ? Kind::kDict : Kind::kTuple;
    node.keys = keys_of(space);
    nodes_.push_back(node);
    for (const auto& key : node.keys) add(space[key], part_name(name, key));
    return;
  }
  if (is_a(space, "Discrete")) {
    node.start = {space.attr("start").cast<std::int64_t>()};
    node.type = numpy("dtype")(space.attr("dtype")).attr("type");
    if (envs_ > 0) {
      node.kind = Kind::kIntegers;
      node.empty = maker_of(space, envs_, name, {"int64", "int32"});
      node.wide = element_size(space) == sizeof(std::int64_t);
    }
    const auto n = space.attr("n").cast<std::int64_t>();
    description_ += fmt::format("action discrete {} {}\n", n, name);
    if (node.start[0] != 0)
      add_notice(name, fmt::format("0 to {}, which stand for {} to {}", n - 1, node.start[0],
                                   node.start[0] + n - 1));
  } else if (is_a(space, "MultiDiscrete")) {
    add_integers(space, name, node);
  } else if (is_a(space, "MultiBinary")) {
    node.kind = Kind::kBits;
    node.count = product(shape_of(space));
    node.empty = maker_of(space, envs_, name, {"int8"});
    description_ += fmt::format("action multi-binary {} {}\n", node.count, name);
  } else if (is_a(space, "Box")) {
    add_box(space, name, node);
  } else {
    refuse(space, name);
  }
  nodes_.push_back(std::move(node));
}

void ActionSpace::add_integers(const py::object& space, const std::string& name, Node& node) {
  node.kind = Kind::kIntegers;
  node.count = product(shape_of(space));
  node.empty = maker_of(space, envs_, name, {"int64", "int32"});
  node.wide = element_size(space) == sizeof(std::int64_t);
  node.start = all<std::int64_t>(space.attr("start"));
  description_ += fmt::format("action multi-discrete {} {} {}\n", node.count,
                              fmt::join(all<std::int64_t>(space.attr("nvec")), " "), name);
  if (std::ranges::any_of(node.start, [](std::int64_t x) { return x != 0; }))
    add_notice(name, fmt::format("whole numbers from 0 on, which stand for those from [{}] on",
                                 fmt::join(node.start, ", ")));
}

// An exported policy gives the agent's actions, and its description has the notices.
void ActionSpace::add_notice(const std::string& name, const std::string& found) {
  description_ += fmt::format("notice the agent's action {}is {}\n", quoted(name), found);
}

void ActionSpace::add_box(const py::object& space, const std::string& name, Node& node) {
  node.kind = Kind::kBox;
  node.count = product(shape_of(space));
  require(node.count > 0, "the action {}is a {} without numbers, expected one at least",
          quoted(name), std::string(py::str(space)));
  node.empty = maker_of(space, envs_, name, {"float32", "float64"});
  node.wide = element_size(space) == sizeof(double);
  node.low = all<double>(space.attr("low"));
  node.high = all<double>(space.attr("high"));
  for (auto& x : node.low) x = x <= -kNoBound ? -kInfinity : x;
  for (auto& x : node.high) x = x >= kNoBound ? kInfinity : x;
  auto [low, high] = range_of(node.low, node.high);
  const auto equal = [](const std::vector<double>& bounds, double to) {
    return std::ranges::all_of(bounds, [&](double x) { return x == to; });
  };
  if (!equal(node.low, low) || !equal(node.high, high)) {
    node.rescaled = std::isfinite(low) && std::isfinite(high) &&
                    std::isfinite(std::ranges::max(node.low)) &&
                    std::isfinite(std::ranges::min(node.high));
    low = node.rescaled ? -1 : -kInfinity;
    high = -low;
    const auto bounds =
        fmt::format("[{}] to [{}]", fmt::join(node.low, ", "), fmt::join(node.high, ", "));
    add_notice(name, node.rescaled ? "-1 to 1, which stand for " + bounds
                                   : "without bounds, and clipped to " + bounds);
  }
  description_ += fmt::format("action box {} {} {} {}\n", node.count, low, high, name);
}

py::object ActionSpace::read(const std::uint8_t* const* from) const {
  std::size_t node = 0;
  return read(node, from);
}

py::object ActionSpace::read(std::size_t& node, const std::uint8_t* const*& from) const {
  const auto& n = nodes_[node++];
  if (n.kind == Kind::kDict) {
    py::dict parts;
    for (const auto& key : n.keys) parts[key] = read(node, from);
    return parts;
  }
  if (n.kind == Kind::kTuple) {
    py::tuple parts(n.keys.size());
    for (std::size_t i = 0; i < n.keys.size(); ++i) parts[i] = read(node, from);
    return parts;
  }
  return value(n, *from++);
}

py::object ActionSpace::value(const Node& node, const std::uint8_t* from) const {
  const auto count = node.count * std::max<std::size_t>(envs_, 1);
  if (node.kind == Kind::kBits)
    return filled<std::int8_t>(node.empty, count, [&](std::size_t i) { return from[i]; });
  if (node.kind == Kind::kBox) {
    const auto* numbers = reinterpret_cast<const float*>(from);
    const auto number = [&](std::size_t i) {
      const double x = numbers[i], low = node.low[i % node.count], high = node.high[i % node.count];
      return std::clamp(node.rescaled ? low + (x + 1) / 2 * (high - low) : x, low, high);
    };
    return node.wide ? filled<double>(node.empty, count, number)
                     : filled<float>(node.empty, count, number);
  }
  const auto* choices = reinterpret_cast<const std::int64_t*>(from);
  const auto integer = [&](std::size_t i) { return node.start[i % node.count] + choices[i]; };
  if (node.kind == Kind::kDiscrete) return node.type(integer(0));
  return node.wide ? filled<std::int64_t>(node.empty, count, integer)
                   : filled<std::int32_t>(node.empty, count, integer);
}

}  // namespace shoal::python
