#include <fmt/ranges.h>

#include <cmath>
#include <tuple>
#include <variant>

#include "bindings.h"
#include "runners/settings.h"
#include "src/core/option_range.h"

namespace shoal::bindings {
namespace {

// Key, value as TOML, meaning, annotation of Python, and the accepted numbers in words.
using Description = std::tuple<std::string, std::string, std::string, std::string, std::string>;

std::string annotation(const bool*) { return "bool"; }
std::string annotation(const int*) { return "int"; }
std::string annotation(const std::int64_t*) { return "int"; }
std::string annotation(const std::uint64_t*) { return "int"; }
std::string annotation(const double*) { return "float"; }
std::string annotation(const std::chrono::milliseconds*) { return "float"; }
std::string annotation(const std::string*) { return "str"; }
std::string annotation(const std::vector<std::int64_t>*) { return "Sequence[int]"; }
std::string annotation(const std::vector<std::string>*) { return "Sequence[str]"; }
std::string annotation(const Choice& choice) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choice.names) names.push_back("\"" + name + "\"");
  return fmt::format("Literal[{}]", fmt::join(names, ", "));
}

Description describe(const Option& option, const SettingDoc& doc) {
  auto type = std::visit([](const auto& field) { return annotation(field); }, option.field);
  std::string range;
  if (type == "float" && std::isinf(option.bounds.high))
    type += " | Literal[\"off\"]";
  else if (type == "int" || type == "float" || type == "Sequence[int]")
    range = range_text(option);
  return {doc.key, doc.value, doc.doc, type, range};
}

std::vector<Description> describe_settings(Config config) {
  std::vector<Description> all;
  const auto docs = setting_docs(config);
  for (std::size_t i = 0; const auto& option : options_of(config))
    all.push_back(describe(option, docs[i++]));
  return all;
}

}  // namespace

void bind_setting_docs(py::module_& m) {
  m.def("setting_docs", &describe_settings,
        "Of each setting: key, value as TOML, meaning, annotation, accepted numbers.",
        py::arg("config"));
  m.def("setting_names_of", &setting_names_of,
        "The names of settings that other libraries call `name`.", py::arg("name"));
}

}  // namespace shoal::bindings
