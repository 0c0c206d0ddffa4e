#include "python_env.h"

#include <pybind11/eval.h>

#include <cstring>
#include <functional>
#include <utility>

#include "construction.h"
#include "conversion.h"
#include "shared_generators.h"
#include "shoal/core/error.h"

namespace shoal::python {
namespace {

// Returns observation and info.
py::tuple parts_of_reset(const py::object& result) {
  auto parts = parts_of(result, 2, "reset()", "observation and info");
  const py::object info = parts[1];
  if (!py::isinstance<py::dict>(info))
    throw Error("reset() returned an info {}, expected a dict behind the observation",
                describe(info));
  return parts;
}

// dumps(env) raises an exception where unpickling would not restore the state.
constexpr const char* kPickling = R"(
import io, pickle
from gymnasium.utils import EzPickle

class Pickler(pickle.Pickler):
    def reducer_override(self, part):
        if isinstance(part, EzPickle):
            raise pickle.PicklingError("an EzPickle is constructed anew from its first arguments")
        return NotImplemented

def dumps(env):
    file = io.BytesIO()
    Pickler(file).dump(env)
    return file.getvalue()
)";

const py::object& dumps() {
  static py::object* function = nullptr;  // set while holding the GIL; never destroyed
  if (function == nullptr) {
    py::dict scope;
    scope["__builtins__"] = py::module_::import("builtins");
    py::exec(kPickling, scope);
    function = new py::object(scope["dumps"]);
  }
  return *function;
}

}  // namespace

std::vector<std::string> registered_ids() {
  std::vector<std::string> ids;
  for (const auto& id : py::dict(gymnasium().attr("registry"))) ids.emplace_back(py::str(id.first));
  return ids;
}

PythonEnv::PythonEnv(const shoal_gymnasium_task& task) {
  bind(make_environment(task));
  infos_ = requested_infos(task);
  observation_.emplace(env_.attr("observation_space"));
  action_.emplace(env_.attr("action_space"));
  const py::dict metadata(env_.attr("metadata"));
  const auto modes = py::list(metadata.attr("get")("render_modes", py::list()));
  const auto fps = metadata.attr("get")("render_fps", py::none());
  description_ = observation_->description() + action_->description();
  description_ += modes.contains("rgb_array") ? "render 1\n" : "render 0\n";
  if (!fps.is_none()) description_ += "fps " + std::string(py::str(fps)) + "\n";
}

PythonEnv::~PythonEnv() {
  try {
    env_.attr("close")();
  } catch (const std::exception&) {  // the environment is discarded in any case
  }
}

void PythonEnv::bind(py::object env) {
  env_ = std::move(env);
  step_ = env_.attr("step");
  reset_ = env_.attr("reset");
}

bool PythonEnv::has_mask() {
  const auto result = parts_of_reset(reset_(py::arg("seed") = 0));
  return action_->single_choice() > 0 && result[1].contains(kMask);
}

void PythonEnv::reset(std::optional<std::uint64_t> seed, shoal_gymnasium_out out) {
  if (seed) SharedGenerators::seed(*seed);
  const auto result = parts_of_reset(seed ? reset_(py::arg("seed") = *seed) : reset_());
  write(result[0], result[1], out);
}

shoal_gymnasium_step PythonEnv::step(const std::uint8_t* const* action, shoal_gymnasium_out out) {
  const auto result =
      parts_of(step_(action_->read(action)), 5, "step()",
               "observation, reward, terminated, truncated and info, as Gymnasium has it since Gym "
               "0.26");
  write(result[0], result[4], out);
  const shoal_gymnasium_step end{.reward = to_number(result[1], "the reward"),
                                 .terminated = static_cast<int>(to_bool(result[2], "terminated")),
                                 .truncated = static_cast<int>(to_bool(result[3], "truncated"))};
  if ((end.terminated | end.truncated) != 0) require_seen(infos_, result[4]);
  return end;
}

void PythonEnv::write(const py::object& observation, const py::object& info,
                      shoal_gymnasium_out out) {
  observation_->write(observation, out.observation);
  if (!infos_.empty()) write_infos(info, out.info);
  if (out.mask != nullptr) write_mask(info, out.mask);
}

void PythonEnv::write_mask(const py::object& info, std::uint8_t* to) const {
  require(py::isinstance<py::dict>(info) && info.contains(kMask),
          "info has no \"{}\", which the first reset() gave; expected one at every reset and step",
          kMask);
  const auto mask = py::array_t<bool, py::array::c_style | py::array::forcecast>(info[kMask]);
  require(mask.size() == action_->single_choice(),
          "info[\"action_mask\"] has {} elements, the action space has {} actions", mask.size(),
          action_->single_choice());
  std::memcpy(to, mask.data(), static_cast<std::size_t>(mask.size()));
}

void PythonEnv::write_infos(const py::object& info, float* const* to) {
  for (auto& one : infos_) {
    const auto part = one.find_in(info);
    **to++ = part ? static_cast<float>(to_number(part, "the info '" + one.name + "'")) : 0.0F;
  }
}

const std::string& PythonEnv::save() {
  saved_.clear();
  try {
    saved_ = std::string(py::bytes(dumps()(env_)));
  } catch (const py::error_already_set&) {  // e.g. it contains a lock or a window
  }
  return saved_;
}

void PythonEnv::load(const std::string& bytes) {
  bind(py::module_::import("pickle").attr("loads")(py::bytes(bytes)));
  SharedGenerators::seed(std::hash<std::string>{}(bytes));  // no seeded reset follows
  for (auto& one : infos_) one.seen = true;                 // maybe before the state was saved
}

PythonEnv::Picture PythonEnv::picture() {
  const py::object result = env_.attr("render")();
  require(!result.is_none(),
          "render() returned None, expected an array [height, width, 3]; the environment is made "
          "with render_mode=\"rgb_array\" if its constructor has this argument");
  const py::array_t<std::uint8_t, py::array::c_style | py::array::forcecast> rgb(result);
  require(rgb.ndim() == 3 && rgb.shape(2) == 3,
          "render() returned an array of {} dimensions, expected [height, width, 3]", rgb.ndim());
  picture_ = rgb;
  return {static_cast<int>(rgb.shape(0)), static_cast<int>(rgb.shape(1)), rgb.data()};
}

}  // namespace shoal::python
