#pragma once

#include <Python.h>
#include <pybind11/pybind11.h>

#include <cstdint>

namespace shoal::python {

// The random generators of Python, NumPy and PyTorch that all environments of a process share. A
// forked worker has copies of them, with which all workers would draw the same numbers; so seeded
// resets seed them there, and in the command. In a user's own process they are left alone. The
// caller holds the GIL.
class SharedGenerators {
 public:
  // In a process of Shoal's own.
  static void own() { PySys_SetObject(kMark, Py_True); }

  static void seed(std::uint64_t seed) {
    namespace py = pybind11;
    if (PySys_GetObject(kMark) == nullptr) return;
    py::module_::import("random").attr("seed")(seed);
    py::module_::import("numpy").attr("random").attr("seed")(static_cast<std::uint32_t>(seed));
    const py::dict loaded = py::module_::import("sys").attr("modules");
    if (loaded.contains("torch")) loaded["torch"].attr("manual_seed")(seed);
  }

 private:
  // In `sys`, because the plugin and the package for Python are two libraries.
  static constexpr const char* kMark = "_shoal_owns_generators";
};

}  // namespace shoal::python
