#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "gymnasium_plugin.h"

namespace shoal::python {

// The package of that name. Throws Error if it is not installed.
pybind11::module_ gymnasium();

// gymnasium.make() and the wrappers of the task, the innermost first. An unknown id whose package
// is installed but not imported is imported: "package/Task-v0", and "MiniGrid-Empty-5x5-v0" of the
// package minigrid.
pybind11::object make_environment(const shoal_gymnasium_task& task);

}  // namespace shoal::python
