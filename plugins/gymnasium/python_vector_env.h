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

// A gymnasium.vector.VectorEnv, or an object with the same members. The caller holds the GIL;
// Python exceptions are thrown as py::error_already_set.
class PythonVectorEnv {
 public:
  // envs 0: as few as there can be.
  PythonVectorEnv(const shoal_gymnasium_task& task, std::size_t envs);
  ~PythonVectorEnv();
  PythonVectorEnv(const PythonVectorEnv&) = delete;
  PythonVectorEnv& operator=(const PythonVectorEnv&) = delete;

  const std::string& description() const { return description_; }
  bool has_mask();

  void reset(const std::uint64_t* seeds, shoal_gymnasium_vector_out out);
  void step(const std::uint8_t* const* action, shoal_gymnasium_vector_out out);

 private:
  enum class Autoreset : std::uint8_t { kNextStep, kSameStep, kDisabled };
  Autoreset find_autoreset() const;
  py::tuple call_reset(const std::uint64_t* seeds);
  void write_infos(const py::object& infos, float* const* to, const std::uint8_t* only);
  void write_masks(const py::object& infos, std::uint8_t* to, const std::uint8_t* only) const;
  void write_lanes(const py::object& observations, std::uint8_t* const* to,
                   const std::uint8_t* only) const;
  void begin_next(const py::object& infos, const shoal_gymnasium_vector_out& out);
  void take_finals(const py::object& infos, const shoal_gymnasium_vector_out& out);
  void keep_finals(const shoal_gymnasium_vector_out& out) const;
  void reset_ended(const shoal_gymnasium_vector_out& out);

  py::object env_, step_, reset_;
  std::size_t envs_ = 0;
  Autoreset autoreset_;
  bool seeds_each_ = true;  // reset() accepts a list of seeds
  std::optional<ObservationSpace> observation_, one_;
  std::optional<ActionSpace> action_;
  std::vector<RequestedInfo> infos_;
  std::vector<std::uint8_t> ended_, waiting_;  // in the last step
  std::string description_;
};

}  // namespace shoal::python
