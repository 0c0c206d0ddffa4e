#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "shoal/core/stop.h"

namespace shoal::bindings {

// While an instance lives, in any thread, Ctrl-C also interrupts waits for workers, a second later:
// they throw Interrupted. Python's own handler is called as well.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  bool was_pressed() const;
};

// Calls act() without the GIL. Raises KeyboardInterrupt if Ctrl-C was pressed meanwhile: whatever
// act() then throws comes of it.
template <class Act>
auto interruptible(const Act& act) {
  std::optional<decltype(act())> result;
  bool pressed = false;
  try {
    const pybind11::gil_scoped_release unlocked;
    const Interruptible guard;
    try {
      result.emplace(act());
    } catch (...) {
      pressed = guard.was_pressed();
      throw;
    }
  } catch (...) {
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
    if (!pressed) throw;
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw pybind11::error_already_set();
  }
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  return *std::move(result);
}

}  // namespace shoal::bindings
