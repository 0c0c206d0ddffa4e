#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shoal::python {

namespace py = pybind11;

// A possibly nested observation space as a list of arrays: "a/b" is value["a"]["b"]; the parts of a
// tuple are named by their indices. envs > 0: the values are those of a vector environment, whose
// arrays have a first axis of that many environments.
class ObservationSpace {
 public:
  // Parts of a Dict or a Tuple without a fixed size, such as a text, are left out, with a notice in
  // the description. Throws Error if nothing else is left.
  explicit ObservationSpace(const py::object& space, std::size_t envs = 0);

  // The lines of the plugin's description.
  const std::string& description() const { return description_; }
  // Copies an observation; to: a pointer per array. Throws Error if it does not match the space.
  void write(const py::object& observation, std::uint8_t* const* to) const;
  // The bytes of each array.
  std::vector<std::size_t> sizes() const;

 private:
  struct Array {
    std::string what;  // "the observation 'camera'"
    std::vector<py::object> keys;
    bool number;  // a Python integer
    py::dtype declared, stored;
    bool same;  // declared == stored
    std::vector<py::ssize_t> shape;
    std::size_t bytes;
    // The bounds of each choice of an environment; empty if any number is allowed.
    std::vector<std::int64_t> lowest, highest;

    void check_choices(const std::int64_t* numbers, std::size_t count) const;
    py::object part_of(const py::object& observation) const;
    void copy(const py::object& value, std::uint8_t* to) const;
  };
  void add(const py::object& space, const std::string& name, std::vector<py::object> keys);
  void leave_out(const py::object& space, const std::string& name);

  std::size_t envs_;
  std::vector<Array> arrays_;
  py::object left_out_;  // the last part without a fixed size
  std::string left_out_name_;
  std::string description_;
};

// An action space in the same form; converts arrays to step()'s argument.
class ActionSpace {
 public:
  explicit ActionSpace(const py::object& space, std::size_t envs = 0);

  const std::string& description() const { return description_; }
  // The number of actions of a Discrete; 0 for other spaces.
  std::int64_t single_choice() const { return single_choice_; }
  // from: a pointer per action. Returns a new object each time, which the environment may keep.
  py::object read(const std::uint8_t* const* from) const;

 private:
  enum class Kind : std::uint8_t { kDiscrete, kIntegers, kBits, kBox, kDict, kTuple };
  // In depth-first order; the parts of a Dict or a Tuple follow it.
  struct Node {
    Kind kind = Kind::kDiscrete;
    std::vector<py::object> keys;     // of a Dict or a Tuple
    py::object type;                  // of a Discrete's samples, such as NumPy's int64
    py::object empty;                 // makes a new array with the space's dtype and shape
    bool wide = false;                // elements have 8 bytes, not 4
    std::size_t count = 1;            // number of elements of one environment
    std::vector<std::int64_t> start;  // of integers: the lowest values
    std::vector<double> low, high;    // of a Box
    bool rescaled = false;            // from [-1, 1], because the elements have different bounds
  };
  void add(const py::object& space, const std::string& name);
  void add_integers(const py::object& space, const std::string& name, Node& node);
  void add_notice(const std::string& name, const std::string& found);
  void add_box(const py::object& space, const std::string& name, Node& node);
  py::object read(std::size_t& node, const std::uint8_t* const*& from) const;
  py::object value(const Node& node, const std::uint8_t* from) const;

  std::size_t envs_;
  std::vector<Node> nodes_;
  std::int64_t single_choice_ = 0;
  std::string description_;
};

}  // namespace shoal::python
