#include "results.h"

#include <algorithm>
#include <sstream>

#include "conversion.h"
#include "shoal/core/error.h"

namespace shoal::python {

py::tuple parts_of(const py::object& result, std::size_t count, const char* method,
                   const char* expected) {
  const bool several = py::isinstance<py::tuple>(result) || py::isinstance<py::list>(result);
  if (!several) throw Error("{} returned {}, expected {}", method, describe(result), expected);
  py::tuple parts(result);
  require(parts.size() == count, "{} returned {} values, expected {}", method, parts.size(),
          expected);
  return parts;
}

py::object RequestedInfo::find_in(const py::object& info) {
  py::object part = info;
  const auto enter = [&](const py::object& key) {
    const bool there = py::isinstance<py::dict>(part) && part.contains(key);
    if (there) part = part[key];
    return there;
  };
  if (!enter(whole) && !std::ranges::all_of(keys, enter)) return {};
  seen = true;
  return is_presence ? py::bool_(true) : part;
}

std::vector<RequestedInfo> requested_infos(const shoal_gymnasium_task& task) {
  std::vector<RequestedInfo> infos;
  std::istringstream lines(task.infos);
  for (std::string name; std::getline(lines, name);) {
    const bool is_presence = name.starts_with('?');
    const auto key = name.substr(is_presence ? 1 : 0);
    std::istringstream parts(key);
    auto& info = infos.emplace_back(RequestedInfo{.name = name,
                                                  .whole = py::str(key),
                                                  .keys = {},
                                                  .seen = task.rare_infos != 0,
                                                  .is_presence = is_presence});
    for (std::string part; std::getline(parts, part, '/');) info.keys.push_back(py::str(part));
  }
  return infos;
}

void require_seen(const std::vector<RequestedInfo>& infos, const py::object& last) {
  for (const auto& one : infos)
    require(one.seen,
            "env.info: no step of the first episode has an info '{}'; its last step has {}",
            one.name, std::string(py::str(py::list(last))));
}

}  // namespace shoal::python
