#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gymnasium_plugin.h"
#include "spaces.h"

namespace shoal::python {

// The ids that gymnasium.make() knows without importing anything else.
std::vector<std::string> registered_ids();

// One environment of Gymnasium. The caller holds the interpreter's lock; what Python raises comes
// out as py::error_already_set.
class PythonEnv {
 public:
  PythonEnv(const std::string& id, const std::string& kwargs, bool render);
  ~PythonEnv();
  PythonEnv(const PythonEnv&) = delete;
  PythonEnv& operator=(const PythonEnv&) = delete;

  const std::string& description() const { return description_; }
  bool has_mask();

  void reset(std::optional<std::uint64_t> seed, shoal_gymnasium_out out);
  shoal_gymnasium_step step(const std::uint8_t* const* action, shoal_gymnasium_out out);

  // Empty if the environment cannot be pickled with its state.
  const std::string& save();
  void load(const std::string& bytes);

  struct Picture {
    int height, width;
    const std::uint8_t* rgb;
  };
  Picture picture();

 private:
  void bind(py::object env);
  void write(const py::object& observation, const py::object& info, shoal_gymnasium_out out);

  py::object env_, step_, reset_;
  std::optional<ObservationSpace> observation_;
  std::optional<ActionSpace> action_;
  py::object picture_;  // no array: that would ask for NumPy before Gymnasium is looked for
  std::string description_, saved_;
};

}  // namespace shoal::python
