#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gymnasium_plugin.h"
#include "results.h"
#include "spaces.h"

namespace shoal::python {

// The ids that gymnasium.make() accepts without importing other modules.
std::vector<std::string> registered_ids();

// A Gymnasium environment. The caller holds the GIL; Python exceptions are thrown as
// py::error_already_set.
class PythonEnv {
 public:
  explicit PythonEnv(const shoal_gymnasium_task& task);
  ~PythonEnv();
  PythonEnv(const PythonEnv&) = delete;
  PythonEnv& operator=(const PythonEnv&) = delete;

  const std::string& description() const { return description_; }
  bool has_mask();

  void reset(std::optional<std::uint64_t> seed, shoal_gymnasium_out out);
  shoal_gymnasium_step step(const std::uint8_t* const* action, shoal_gymnasium_out out);

  // Empty if pickling does not preserve the environment's state.
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
  void write_mask(const py::object& info, std::uint8_t* to) const;
  void write_infos(const py::object& info, float* const* to);

  py::object env_, step_, reset_;
  std::optional<ObservationSpace> observation_;
  std::optional<ActionSpace> action_;
  std::vector<RequestedInfo> infos_;
  py::object picture_;  // not py::array, which would import NumPy before Gymnasium is found
  std::string description_, saved_;
};

}  // namespace shoal::python
