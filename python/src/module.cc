#include <array>
#include <exception>

#include "bindings.h"
#include "plugins/gymnasium/fork_handlers.h"
#include "shoal/core/finite.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/version.h"

namespace shoal::bindings {
namespace {

// The exception of a worker, with its attributes worker, env and step.
void raise_worker_error(const WorkerError& e, const py::object& type) {
  py::object raised = type(e.what());
  raised.attr("worker") = e.worker;
  raised.attr("env") = e.env;
  raised.attr("step") = e.step;
  PyErr_SetObject(type.ptr(), raised.ptr());
}

void bind_errors(py::module_& m) {
  py::register_exception<Error>(m, "Error", PyExc_ValueError).attr("__doc__") =
      "Its message says what was found, what was expected, and what to do.";
  const py::object data_error = py::exception<DataError>(m, "DataError", PyExc_ArithmeticError);
  data_error.attr("__doc__") =
      "A number of an environment or of an agent is not finite, or no action is legal.";
  const py::object worker_error = py::exception<WorkerError>(m, "WorkerError", PyExc_RuntimeError);
  worker_error.attr("__doc__") =
      "A worker died, or its environment raised an exception. worker: its index; env: the index of "
      "the environment that it was running, -1: none; step: the step of that environment.";
  py::dict attributes;
  for (const char* name : {"worker", "env", "step"}) attributes[name] = py::type::of(py::int_(0));
  worker_error.attr("__annotations__") = attributes;
  const py::object worker_data_error = py::exception<WorkerDataError>(
      m, "WorkerDataError", py::make_tuple(worker_error, data_error));
  // Never destroyed: the interpreter may end first.
  static auto* types = new std::array{data_error, worker_error, worker_data_error};
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const WorkerDataError& e) {
      raise_worker_error(e, (*types)[2]);
    } catch (const WorkerError& e) {
      raise_worker_error(e, (*types)[1]);
    } catch (const DataError& e) {
      PyErr_SetString((*types)[0].ptr(), e.what());
    }
  });
}

}  // namespace
}  // namespace shoal::bindings

PYBIND11_MODULE(_core, m) {
  using namespace shoal::bindings;  // NOLINT(google-build-using-namespace)
  m.doc() = "The C++ core of Shoal. Use the package shoal.";
  m.attr("__version__") = shoal::kVersion;
  shoal::python::ForkHandlers::install();
  bind_errors(m);
  bind_config(m);
  bind_setting_docs(m);
  bind_agents(m);
  bind_samplers(m);
  bind_replays(m);
  bind_algos(m);
  bind_training(m);
  bind_torch_agent(m);
  bind_vector_env(m);
}
