#include "construction.h"

#include <fmt/format.h>
#include <pybind11/eval.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "shoal/core/error.h"

namespace py = pybind11;

// kParallelGames, the text of parallel_games.py.
#include "parallel_games.inc"

namespace shoal::python {
namespace {

// parse(text) of "module.Name" or "module.Name(arguments)", whose arguments are literals; without a
// module, of Gymnasium's wrappers. candidates(id): packages that may register an id. spec(id): what
// is registered, or None. maker(id): the callable that "module:name" names, or None. A module that
// is not installed is an exception `Missing` with its name.
constexpr const char* kHelpers = R"(
import ast, importlib, importlib.util

def parse(text, default):
    try:
        node = ast.parse(text.strip(), mode="eval").body
        call = isinstance(node, ast.Call)
        positional = [ast.literal_eval(a) for a in node.args] if call else []
        named = {k.arg: ast.literal_eval(k.value) for k in node.keywords} if call else {}
        name = ast.unparse(node.func if call else node)
        if not all(part.isidentifier() for part in name.split(".")) or None in named:
            return None
    except (SyntaxError, ValueError):
        return None
    module, _, short = name.rpartition(".")
    return module or default, short, positional, named

class Missing(Exception):
    pass

def load(module):
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        raise Missing(error.name)

def wrapper(module, name):
    return getattr(load(module), name, None)

def candidates(id):
    first = (id.split("/") if "/" in id else id.split("-"))[0].replace("-", "_")
    names = dict.fromkeys([first, first.lower(), first.lower() + "_env"])
    return [n for n in names if n.isidentifier() and importlib.util.find_spec(n) is not None]

def spec(id, registry):
    module, _, name = id.rpartition(":")
    if module or name not in registry:
        for package in [module] if module else candidates(id):
            load(package)
    return registry.get(name)

def maker(id):
    module, _, name = id.rpartition(":")
    made = getattr(load(module), name, None) if module else None
    return made if callable(made) else None
)";

// "`python -m pip install PACKAGE`" for the interpreter in use.
std::string installation(const std::string& package) {
  return fmt::format("`{} -m pip install {}`",
                     std::string(py::str(py::module_::import("sys").attr("executable"))), package);
}

// Calls what(helpers), and names a module that is not installed.
template <class What>
auto with_helpers(What what) {
  py::dict scope;
  scope["__builtins__"] = py::module_::import("builtins");
  py::exec(kHelpers, scope);
  try {
    return what(std::as_const(scope));
  } catch (py::error_already_set& e) {
    if (!e.matches(scope["Missing"])) throw;
    const std::string name(py::str(e.value()));
    throw Error("there is no Python module '{}'; if it is a package's, run {}", name,
                installation(name));
  }
}

py::object parse_object(const std::string& json) {
  const auto library = py::module_::import("json");
  py::object object;
  try {
    object = library.attr("loads")(json);
  } catch (const py::error_already_set& e) {
    if (!e.matches(library.attr("JSONDecodeError"))) throw;
  }
  if (!object || !py::isinstance<py::dict>(object))
    throw Error(
        "the keyword arguments are '{:.100}', expected a JSON object like "
        "{{\"gravity\": 5.0}}",
        json);
  return object;
}

py::object wrapped(const py::object& env, const std::string& text, const char* wrappers,
                   const py::dict& scope) {
  const py::object parsed = scope["parse"](text, wrappers);
  if (parsed.is_none())
    throw Error(
        "gymnasium.wrappers: found '{:.200}', expected the name of a class with literal arguments, "
        "such as minigrid.wrappers.ImgObsWrapper or FrameStackObservation(stack_size=4)",
        text);
  const py::tuple parts(parsed);
  const py::object make = scope["wrapper"](parts[0], parts[1]);
  if (make.is_none())
    throw Error("gymnasium.wrappers: the module {} has no '{}'", std::string(py::str(parts[0])),
                std::string(py::str(parts[1])));
  py::list positional;
  positional.append(env);
  for (const auto& argument : parts[2]) positional.append(argument);
  return make(*py::tuple(positional), **py::dict(parts[3]));
}

// Whether a package was imported that may register the id.
bool import_package_of(const std::string& id, const py::dict& scope) {
  if (id.find(':') != std::string::npos) return false;
  bool imported = false;
  for (const auto& name : scope["candidates"](id)) {
    py::module_::import(std::string(py::str(name)).c_str());
    imported = true;
  }
  return imported;
}

py::object make(const char* how, const std::string& id, const py::dict& arguments,
                const py::dict& scope) {
  const auto library = gymnasium();
  const py::object mistake = library.attr("error").attr("Error");
  try {
    return library.attr(how)(id, **arguments);
  } catch (py::error_already_set& e) {
    if (!e.matches(mistake)) throw;
    // E.g. an unknown name, with a similar one.
    const bool unknown = e.matches(library.attr("error").attr("UnregisteredEnv"));
    if (unknown && id.starts_with("shoal/callable-"))
      throw Error(
          "found the environment of a Python callable, which only the process that made it knows, "
          "expected the callable; from Python give it: shoal.load(FOLDER, env=make)");
    const std::string message(py::str(e.value()));  // may name a similar environment
    if (!unknown || !import_package_of(id, scope)) {
      if (!unknown || id.find(':') != id.npos || message.find("Did you mean") != message.npos)
        throw Error("{}", message);
      throw Error("{} If a package registers it, name that, too: gymnasium:PACKAGE:{}; or run {}",
                  message, id, installation("PACKAGE"));
    }
  }
  try {
    return library.attr(how)(id, **arguments);
  } catch (py::error_already_set& e) {
    if (!e.matches(mistake)) throw;
    throw Error("{}", std::string(py::str(e.value())));
  }
}

py::object wrapped(py::object env, const shoal_gymnasium_task& task, const char* wrappers,
                   const py::dict& scope) {
  std::istringstream lines(task.wrappers);
  for (std::string line; std::getline(lines, line);) env = wrapped(env, line, wrappers, scope);
  return env;
}

constexpr std::string_view kPettingZoo = "pettingzoo:";

// Agents of parallel environments, by the class in parallel_games.py.
py::object make_games(const std::string& module, std::size_t envs, py::dict arguments) {
  py::dict scope;
  scope["__builtins__"] = py::module_::import("builtins");
  py::exec(kParallelGames, scope);
  arguments["num_envs"] = envs;
  try {
    return scope["make"](module, **arguments);
  } catch (py::error_already_set& e) {
    if (!e.matches(PyExc_ModuleNotFoundError)) throw;
    const std::string missing(py::str(e.value().attr("name")));
    // Another one is a module that the game itself imports.
    const auto holds = [&](const std::string& name) {
      return (name + '.').starts_with(missing + '.');
    };
    if (!holds(module) && !holds("pettingzoo." + module)) throw;
    throw Error("there is no Python module '{}'; if it is a package's, run {}", missing,
                installation("pettingzoo"));
  }
}

py::object make_vector(const std::string& id, std::size_t envs, py::dict arguments,
                       const py::dict& scope) {
  arguments["num_envs"] = std::max<std::size_t>(envs, 1);
  const py::object maker = scope["maker"](id);
  if (!maker.is_none()) return maker(**arguments);
  const py::object spec = scope["spec"](id, gymnasium().attr("registry"));
  if (!spec.is_none() && spec.attr("vector_entry_point").is_none())
    throw Error(
        "found no vector_entry_point in the spec of '{}', expected one with "
        "gymnasium.vector = true; set it to false",
        id);
  arguments["vectorization_mode"] = "vector_entry_point";
  return make("make_vec", id, arguments, scope);
}

}  // namespace

py::module_ gymnasium() {
  try {
    return py::module_::import("gymnasium");
  } catch (py::error_already_set& e) {
    if (!e.matches(PyExc_ModuleNotFoundError) ||
        std::string(py::str(e.value().attr("name"))) != "gymnasium")
      throw;
    throw Error(
        "there is no Gymnasium among the packages of {} (for Python {}.{}): run {}, or name "
        "another interpreter of this version",
        std::string(py::str(py::module_::import("sys").attr("executable"))), PY_MAJOR_VERSION,
        PY_MINOR_VERSION, installation("gymnasium"));
  }
}

py::object make_environment(const shoal_gymnasium_task& task) {
  py::dict arguments;
  // The checks help to write an environment, and cost a fifth of a step.
  arguments["disable_env_checker"] = true;
  if (*task.kwargs != 0) arguments.attr("update")(parse_object(task.kwargs));
  const auto made = [&](const py::dict& scope) {
    if (task.render == 0 || arguments.contains("render_mode"))
      return make("make", task.id, arguments, scope);
    py::dict drawing = arguments.attr("copy")();
    drawing["render_mode"] = "rgb_array";
    try {
      return make("make", task.id, drawing, scope);
    } catch (const py::error_already_set& e) {
      const bool is_unknown = std::string_view(e.what()).find("'render_mode'") != std::string::npos;
      if (!e.matches(PyExc_TypeError) || !is_unknown) throw;
    }
    return make("make", task.id, arguments, scope);
  };
  return with_helpers([&](const py::dict& scope) {
    return wrapped(made(scope), task, "gymnasium.wrappers", scope);
  });
}

bool makes_vector(const shoal_gymnasium_task& task) {
  const std::string_view id = task.id;
  if (task.vector != 0 || id.starts_with(kPettingZoo)) return true;
  return with_helpers([&](const py::dict& scope) {
    const py::object spec = scope["spec"](task.id, gymnasium().attr("registry"));
    return !spec.is_none() && spec.attr("entry_point").is_none() &&
           !spec.attr("vector_entry_point").is_none();
  });
}

py::object make_vector_environment(const shoal_gymnasium_task& task, std::size_t envs) {
  const py::dict arguments = *task.kwargs == 0 ? py::dict() : py::dict(parse_object(task.kwargs));
  const std::string_view id = task.id;
  return with_helpers([&](const py::dict& scope) {
    auto env = id.starts_with(kPettingZoo)
                   ? make_games(std::string(id.substr(kPettingZoo.size())), envs, arguments)
                   : make_vector(task.id, envs, arguments, scope);
    return wrapped(std::move(env), task, "gymnasium.wrappers.vector", scope);
  });
}

}  // namespace shoal::python
