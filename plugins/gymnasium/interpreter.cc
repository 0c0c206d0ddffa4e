#include "interpreter.h"

#include <dlfcn.h>
#include <pybind11/embed.h>

#include <cstdlib>

#include "fork_handlers.h"
#include "shared_generators.h"
#include "shoal/core/error.h"

namespace shoal::python {
namespace {

// Extension modules such as NumPy's need the interpreter's symbols in the global scope; those of a
// library that a plugin loads are not.
void show_symbols() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&Py_InitializeFromConfig), &info) != 0)
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

void initialize(const std::string& python) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.parse_argv = 0;
  config.install_signal_handlers = 0;  // the program handles Ctrl-C
  config.buffered_stdio = 0;           // workers exit without finalizing Python
  PyConfig_SetBytesString(&config, &config.program_name, python.c_str());
  try {
    pybind11::initialize_interpreter(&config, 0, nullptr, /*add_program_dir_to_path=*/false);
  } catch (const std::exception& e) {
    throw Error("cannot start Python {}.{} as {}: {}", PY_MAJOR_VERSION, PY_MINOR_VERSION, python,
                e.what());
  }
  // As for `python -m`, but last: modules of the working directory.
  pybind11::module_::import("sys").attr("path").attr("append")("");
}

}  // namespace

void start_interpreter(const std::string& python) {
  static std::string running;
  // The package for Python has installed the fork handlers.
  if (running.empty() && Py_IsInitialized() != 0) return;
  require(running.empty() || running == python,
          "this process already runs Python as {}, it cannot also run {}", running, python);
  if (!running.empty()) return;
  show_symbols();
  // Each worker has one core; NumPy's threads would compete with the other workers.
  setenv("OPENBLAS_NUM_THREADS", "1", /*replace=*/0);
  setenv("MKL_NUM_THREADS", "1", /*replace=*/0);
  initialize(python);
  running = python;
  SharedGenerators::seed_in_this_process();
  PyEval_SaveThread();
  ForkHandlers::install();
}

}  // namespace shoal::python
