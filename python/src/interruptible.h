#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "shoal/core/stop.h"

namespace shoal::bindings {

// While an instance lives, Ctrl-C also interrupts waits for workers, a second later: they throw
// Interrupted. Python's own handler is called as well. For the main thread.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
};

// Calls act() without the GIL. Raises KeyboardInterrupt if Ctrl-C was pressed meanwhile.
template <class Act>
auto interruptible(const Act& act) {
  std::optional<decltype(act())> result;
  try {
    const pybind11::gil_scoped_release unlocked;
    const Interruptible guard;
    result.emplace(act());
  } catch (const Interrupted&) {
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
    throw;
  }
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  return *std::move(result);
}

}  // namespace shoal::bindings
