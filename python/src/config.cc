#include <fmt/ranges.h>

#include <set>

#include "bindings.h"
#include "shoal/envs/registry.h"
#include "shoal/runners/trained_agent.h"
#include "shoal/runners/zoo.h"

namespace shoal::bindings {
namespace {

const char* kind_name(ActionSpec::Kind kind) {
  switch (kind) {
    case ActionSpec::Kind::kDiscrete:
      return "discrete";
    case ActionSpec::Kind::kMultiDiscrete:
      return "multi-discrete";
    case ActionSpec::Kind::kBox:
      return "box";
    case ActionSpec::Kind::kMultiBinary:
      return "multi-binary";
  }
  return "";
}

template <class T>
py::typing::Dict<py::str, T> parts(const Named<T>& named) {
  py::typing::Dict<py::str, T> all;
  for (const auto& [name, value] : named) all[py::str(name)] = value;
  return all;
}

std::string describe(const ArraySpec& s) {
  return fmt::format("ArraySpec({} [{}]{})", name_of(s.dtype), fmt::join(s.shape, ", "),
                     s.stack > 1 ? fmt::format(", stack={}", s.stack) : "");
}

std::string describe(const ActionSpec& s) {
  const auto size =
      s.choices.empty() ? fmt::format("{}", s.dims) : fmt::format("{}", fmt::join(s.choices, ", "));
  return fmt::format("ActionSpec({} {})", kind_name(s.kind), size);
}

template <class T>
std::string describe(const Named<T>& named) {
  std::vector<std::string> all;
  for (const auto& [name, value] : named)
    all.push_back((name.empty() ? "" : name + "=") + describe(value));
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string describe(const EnvSpec& s) {
  return fmt::format("EnvSpec({}: {} -> {})", s.id, describe(s.observation), describe(s.action));
}

std::set<std::string> keys(const Config& config) {
  std::set<std::string> all;
  for (const auto& each : setting_docs(config)) all.insert(each.key);
  return all;
}

}  // namespace

void bind_config(py::module_& m) {
  py::class_<ArraySpec>(m, "ArraySpec", "Shape and element type of one array of one environment.")
      .def_property_readonly(
          "dtype", [](const ArraySpec& s) { return name_of(s.dtype); },
          "of the elements: \"uint8\", \"float32\", ...")
      .def_property_readonly(
          "shape",
          [](const ArraySpec& s) {
            return py::typing::Tuple<int, py::ellipsis>(py::cast(s.shape));
          },
          "without the axis of stacked arrays")
      .def_readonly("low", &ArraySpec::low, "least value of an element")
      .def_readonly("high", &ArraySpec::high, "largest value of an element")
      .def_readonly("stack", &ArraySpec::stack, "arrays that form one observation")
      .def("__repr__", [](const ArraySpec& s) { return describe(s); });
  py::class_<ActionSpec>(m, "ActionSpec", "The action space, or a part of it.")
      .def_property_readonly(
          "kind", [](const ActionSpec& s) { return kind_name(s.kind); },
          "\"discrete\", \"multi-discrete\", \"multi-binary\" or \"box\"")
      .def_readonly("choices", &ActionSpec::choices,
                    "number of choices of each part of a discrete or multi-discrete action")
      .def_readonly("dims", &ActionSpec::dims,
                    "numbers of a box, bits of a multi-binary action; 0 for others")
      .def_readonly("low", &ActionSpec::low, "least value of a number of a box")
      .def_readonly("high", &ActionSpec::high, "largest value of a number of a box")
      .def("__repr__", [](const ActionSpec& s) { return describe(s); });
  py::class_<EnvSpec>(m, "EnvSpec", "The description of an environment.")
      .def_readonly("id", &EnvSpec::id)
      .def_property_readonly(
          "observations", [](const EnvSpec& s) { return parts(s.observation); },
          "ArraySpec by name; \"\" is the name of a single one")
      .def_property_readonly(
          "actions", [](const EnvSpec& s) { return parts(s.action); },
          "ActionSpec by name; \"\" is the name of a single one")
      .def_property_readonly(
          "infos",
          [](const EnvSpec& s) {
            std::vector<std::string> names;
            for (const auto& info : s.info) names.push_back(info.name);
            return names;
          },
          "Names of the numbers that it reports with every step")
      .def_readonly("action_mask", &EnvSpec::action_mask,
                    "whether it tells which actions are legal")
      .def("__repr__", [](const EnvSpec& s) { return describe(s); });

  py::class_<Config>(m, "Config", "All settings of a run.")
      .def(py::init<>())
      .def(py::init<const Config&>())
      .def(
          "set",
          [](Config& c, const std::string& key, const std::string& value) { set(c, key, value); },
          "Sets one setting from text.", py::arg("key"), py::arg("value"))
      .def("validate", &validate, "Raises Error unless all settings fit together.")
      .def("to_toml", &write_config, "All settings, as `shoal train` reads them.")
      .def("__str__", &write_config)
      .def("__repr__",
           [](const Config& c) {
             return fmt::format("Config(env=\"{}\", algo=\"{}\", base=\"{}\")", c.env_id, c.algo,
                                c.base);
           })
      .def("keys", &keys, "The names of all settings.")
      .def_readonly("algo", &Config::algo)
      .def_readonly("steps", &Config::steps)
      .def_readonly("schedule_steps", &Config::schedule_steps)
      .def_readonly("env_id", &Config::env_id)
      .def_readonly("seed", &Config::seed)
      .def_property_readonly("envs", [](const Config& c) { return c.sampler.envs; })
      .def_property_readonly("horizon", [](const Config& c) { return c.sampler.horizon; });
  m.def("preset_or_file", &preset_or_file, py::arg("name"), py::arg("given"),
        py::call_guard<py::gil_scoped_release>());
  m.def("as_base", &as_base, "A copy, as `shoal train` begins with the settings of a file.",
        py::arg("config"));
  m.def(
      "default_config",
      [](const Config& asked, const std::string& algo) {
        const py::gil_scoped_release unlocked;
        return default_config(asked, algo);
      },
      "The settings that `shoal train --env` begins with for the environment of `asked`.",
      py::arg("asked"), py::arg("algo"));
  m.def("forget_stop_return", &forget_stop_return,
        "Switches stop_return off if the environment is no longer `task`.", py::arg("config"),
        py::arg("task"));
  m.def("forget_choice", &forget_choice,
        "Has the workers be chosen with the sampler, unless they are given.", py::arg("config"),
        py::arg("given"));
  m.def("read_run_config", &read_run_config, py::arg("run"));
  m.def("trained_config", &trained_config, "The settings of a trained agent.", py::arg("trained"));
  m.def("run_or_zoo", &run_or_zoo, "The file of zoo:NAME.", py::arg("word"));
  m.def(
      "presets",
      [] {
        std::vector<std::pair<std::string, std::string>> all;
        for (const auto& each : presets()) all.emplace_back(each.name, each.doc);
        return all;
      },
      "The name and a sentence of each preset.");
  m.def("env_ids", &env_ids, "The ids of environments, without Gymnasium's.");
  m.def("worker_count", py::overload_cast<const Config&>(&worker_count));
}

}  // namespace shoal::bindings
