#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>

#include "gymnasium_plugin.h"

namespace shoal::python {

// The package of that name. Throws Error if it is not installed.
pybind11::module_ gymnasium();

// Whether the task makes a vector environment.
bool makes_vector(const shoal_gymnasium_task& task);
// A vector environment of this many environments, with the wrappers of the task; 0: as few as there
// can be.
pybind11::object make_vector_environment(const shoal_gymnasium_task& task, std::size_t envs);

// gymnasium.make() and the wrappers of the task, the innermost first. An unknown id whose package
// is installed but not imported is imported: "package/Task-v0", and "MiniGrid-Empty-5x5-v0" of the
// package minigrid.
pybind11::object make_environment(const shoal_gymnasium_task& task);

}  // namespace shoal::python
