#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gymnasium_plugin.h"

namespace shoal::python {

namespace py = pybind11;

constexpr const char* kMask = "action_mask";  // Gymnasium's key in an info

// Checks that a result is a tuple or list of this length, and returns its items.
py::tuple parts_of(const py::object& result, std::size_t count, const char* method,
                   const char* expected);

// An info that the task asks for: "a/b" is info["a/b"], or info["a"]["b"]; "?a" is whether there
// is info["a"].
struct RequestedInfo {
  std::string name;
  py::object whole;  // the name
  std::vector<py::object> keys;
  bool seen = false, is_presence = false;

  // Null if the info has no such part.
  py::object find_in(const py::object& info);
};

std::vector<RequestedInfo> requested_infos(const shoal_gymnasium_task& task);

// Throws Error for an info that no step of the first episode had.
void require_seen(const std::vector<RequestedInfo>& infos, const py::object& last);

}  // namespace shoal::python
