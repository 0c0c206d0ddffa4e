#pragma once

#include <Python.h>
#include <pybind11/pybind11.h>

#include <cstdint>

namespace shoal::python {

// The random generators of Python, NumPy and PyTorch, which all environments of a process share.
// After a fork, workers have equal copies of NumPy's and PyTorch's, and Python seeds its own at
// random. So seeded resets seed all three, in workers and in the command, but not in a user's own
// process. The caller holds the GIL.
class SharedGenerators {
 public:
  static void seed_in_this_process() { PySys_SetObject(kMark, Py_True); }

  static void seed(std::uint64_t seed) {
    namespace py = pybind11;
    if (PySys_GetObject(kMark) == nullptr) return;
    py::module_::import("random").attr("seed")(seed);
    py::module_::import("numpy").attr("random").attr("seed")(static_cast<std::uint32_t>(seed));
    const py::dict loaded = py::module_::import("sys").attr("modules");
    const py::object torch = loaded.attr("get")("torch");
    if (py::hasattr(torch, "manual_seed")) torch.attr("manual_seed")(seed);
  }

 private:
  // In `sys`, because the plugin and the package for Python are two libraries.
  static constexpr const char* kMark = "_shoal_owns_generators";
};

}  // namespace shoal::python
