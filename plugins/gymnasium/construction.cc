#include "construction.h"

#include <pybind11/eval.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "shoal/core/error.h"

namespace py = pybind11;

// kParallelGames, the text of parallel_games.py.
#include "parallel_games.inc"

namespace shoal::python {
namespace {

// parse(text) of "module.Name" or "module.Name(arguments)", whose arguments are literals; without a
// module, of Gymnasium's wrappers. candidates(id): packages that may register an id. spec(id): what
// is registered, or None. maker(id): the callable that "module:name" names, or None.
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

def wrapper(module, name):
    return getattr(importlib.import_module(module), name, None)

def candidates(id):
    first = (id.split("/") if "/" in id else id.split("-"))[0].replace("-", "_")
    names = dict.fromkeys([first, first.lower(), first.lower() + "_env"])
    return [n for n in names if n.isidentifier() and importlib.util.find_spec(n) is not None]

def spec(id, registry):
    module, _, name = id.rpartition(":")
    if module or name not in registry:
        for package in [module] if module else candidates(id):
            importlib.import_module(package)
    return registry.get(name)

def maker(id):
    module, _, name = id.rpartition(":")
    made = getattr(importlib.import_module(module), name, None) if module else None
    return made if callable(made) else None
)";

py::dict helpers() {
  py::dict scope;
  scope["__builtins__"] = py::module_::import("builtins");
  py::exec(kHelpers, scope);
  return scope;
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
    if (!e.matches(library.attr("error").attr("UnregisteredEnv")) || !import_package_of(id, scope))
      throw Error("{}", std::string(py::str(e.value())));
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
  return scope["make"](module, **arguments);
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
    const std::string python(py::str(py::module_::import("sys").attr("executable")));
    throw Error(
        "there is no Gymnasium among the packages of {0} (for Python {1}.{2}): run `{0} -m pip "
        "install gymnasium`, or name another interpreter of this version",
        python, PY_MAJOR_VERSION, PY_MINOR_VERSION);
  }
}

py::object make_environment(const shoal_gymnasium_task& task) {
  py::dict arguments;
  // The checks help to write an environment, and cost a fifth of a step.
  arguments["disable_env_checker"] = true;
  if (task.render != 0) arguments["render_mode"] = "rgb_array";
  if (*task.kwargs != 0) arguments.attr("update")(parse_object(task.kwargs));
  const auto scope = helpers();
  return wrapped(make("make", task.id, arguments, scope), task, "gymnasium.wrappers", scope);
}

bool makes_vector(const shoal_gymnasium_task& task) {
  const std::string_view id = task.id;
  if (task.vector != 0 || id.starts_with(kPettingZoo)) return true;
  const py::object spec = helpers()["spec"](task.id, gymnasium().attr("registry"));
  return !spec.is_none() && spec.attr("entry_point").is_none() &&
         !spec.attr("vector_entry_point").is_none();
}

py::object make_vector_environment(const shoal_gymnasium_task& task, std::size_t envs) {
  const py::dict arguments = *task.kwargs == 0 ? py::dict() : py::dict(parse_object(task.kwargs));
  const std::string_view id = task.id;
  const auto scope = helpers();
  auto env = id.starts_with(kPettingZoo)
                 ? make_games(std::string(id.substr(kPettingZoo.size())), envs, arguments)
                 : make_vector(task.id, envs, arguments, scope);
  return wrapped(std::move(env), task, "gymnasium.wrappers.vector", scope);
}

}  // namespace shoal::python
