#include "python_vector_env.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "construction.h"
#include "conversion.h"
#include "shared_generators.h"
#include "shoal/core/error.h"

namespace shoal::python {
namespace {

constexpr const char* kWaits = "shoal_waits";  // of parallel_games.py

// infos[key]; null if it is not there.
py::object find(const py::object& infos, const char* key) {
  if (!py::isinstance<py::dict>(infos) || !infos.contains(key)) return {};
  return infos[key];
}

template <class T>
py::array_t<T> numbers(const py::object& value, std::size_t count, const std::string& what) {
  const auto array = py::array_t<T, py::array::c_style | py::array::forcecast>::ensure(value);
  if (!array) {
    PyErr_Clear();
    throw Error("{} are {}, expected an array of numbers", what, describe(value));
  }
  require(static_cast<std::size_t>(array.size()) == count,
          "{} are {} numbers, expected {} of each environment", what, array.size(), count);
  return array;
}

// The part of environment i of a batched value.
py::object lane_of(const py::object& values, const py::int_& i) {
  if (py::isinstance<py::dict>(values)) {
    py::dict part;
    for (const auto& [key, value] : py::dict(values))
      part[key] = lane_of(py::reinterpret_borrow<py::object>(value), i);
    return part;
  }
  if (py::isinstance<py::tuple>(values)) {
    const py::tuple all(values);
    py::tuple part(all.size());
    for (std::size_t k = 0; k < all.size(); ++k) part[k] = lane_of(all[k], i);
    return part;
  }
  return values[i];
}

}  // namespace

PythonVectorEnv::PythonVectorEnv(const shoal_gymnasium_task& task, std::size_t envs)
    : env_(make_vector_environment(task, envs)),
      step_(env_.attr("step")),
      reset_(env_.attr("reset")),
      envs_(env_.attr("num_envs").cast<std::size_t>()),
      autoreset_(find_autoreset()) {
  require(envs == 0 || envs_ == envs, "the vector environment has {} environments, expected {}",
          envs_, envs);
  infos_ = requested_infos(task);
  const py::object space = env_.attr("single_observation_space");
  one_.emplace(space);
  observation_.emplace(space, envs_);
  action_.emplace(env_.attr("single_action_space"), envs_);
  ended_.resize(envs_);
  waiting_.resize(envs_);
  const py::object inner = py::getattr(env_, "unwrapped", env_);
  const py::object multiple = py::getattr(inner, "multiple", py::int_(1));
  description_ = one_->description() + action_->description() + "batch " +
                 std::string(py::str(multiple)) + "\nwaits " +
                 (autoreset_ == Autoreset::kNextStep ? "1\n" : "0\n");
}

PythonVectorEnv::~PythonVectorEnv() {
  try {
    env_.attr("close")();
  } catch (const std::exception&) {  // the environments are discarded in any case
  }
}

// Without the key: Gymnasium's default.
PythonVectorEnv::Autoreset PythonVectorEnv::find_autoreset() const {
  py::object mode = py::none();
  if (py::hasattr(env_, "metadata") && !env_.attr("metadata").is_none())
    mode = env_.attr("metadata").attr("get")("autoreset_mode", py::none());
  if (py::hasattr(mode, "value")) mode = mode.attr("value");
  const std::string name(py::str(mode.is_none() ? py::str("NextStep") : py::str(mode)));
  if (name == "NextStep") return Autoreset::kNextStep;
  if (name == "SameStep") return Autoreset::kSameStep;
  require(name == "Disabled",
          "the metadata of the vector environment have the autoreset_mode '{}', expected "
          "NextStep, SameStep or Disabled",
          name);
  return Autoreset::kDisabled;
}

// Some accept one seed for all environments only.
py::tuple PythonVectorEnv::call_reset(const std::uint64_t* seeds) {
  constexpr const char* kExpected = "observations and infos";
  if (seeds == nullptr) return parts_of(reset_(), 2, "reset()", kExpected);
  if (seeds_each_) {
    py::list all;
    for (std::size_t i = 0; i < envs_; ++i) all.append(seeds[i]);
    try {
      return parts_of(reset_(py::arg("seed") = all), 2, "reset()", kExpected);
    } catch (const py::error_already_set&) {
      seeds_each_ = false;  // an error of another kind repeats below
    }
  }
  return parts_of(reset_(py::arg("seed") = seeds[0]), 2, "reset()", kExpected);
}

bool PythonVectorEnv::has_mask() {
  const std::vector<std::uint64_t> seeds(envs_, 0);
  const auto result = call_reset(seeds.data());
  return action_->single_choice() > 0 && find(result[1], kMask);
}

void PythonVectorEnv::reset(const std::uint64_t* seeds, shoal_gymnasium_vector_out out) {
  if (seeds != nullptr) SharedGenerators::seed(seeds[0]);
  const auto result = call_reset(seeds);
  observation_->write(result[0], out.observation);
  if (out.mask != nullptr) write_masks(result[1], out.mask, nullptr);
  std::ranges::fill(waiting_, std::uint8_t{0});
}

void PythonVectorEnv::step(const std::uint8_t* const* action, shoal_gymnasium_vector_out out) {
  const auto result = parts_of(step_(action_->read(action)), 5, "step()",
                               "observations, rewards, terminations, truncations and infos");
  observation_->write(result[0], out.observation);
  const auto copy = [&]<class T>(T* to, const py::object& from, const char* what) {
    std::copy_n(numbers<T>(from, envs_, what).data(), envs_, to);
  };
  copy(out.reward, result[1], "the rewards");
  copy(reinterpret_cast<bool*>(out.terminated), result[2], "the terminations");
  copy(reinterpret_cast<bool*>(out.truncated), result[3], "the truncations");
  const py::object infos = result[4];
  if (!infos_.empty()) write_infos(infos, out.info, nullptr);
  if (out.mask != nullptr) write_masks(infos, out.mask, nullptr);
  bool ended = false;
  for (std::size_t i = 0; i < envs_; ++i) {
    ended_[i] = waiting_[i] == 0 && (out.terminated[i] | out.truncated[i]) != 0 ? 1 : 0;
    ended = ended || ended_[i] != 0;
  }
  if (ended || autoreset_ == Autoreset::kNextStep) begin_next(infos, out);
}

void PythonVectorEnv::begin_next(const py::object& infos, const shoal_gymnasium_vector_out& out) {
  if (autoreset_ == Autoreset::kSameStep) {
    take_finals(infos, out);
  } else {
    keep_finals(out);
    if (autoreset_ == Autoreset::kDisabled) reset_ended(out);
  }
  if (std::ranges::find(ended_, 1) != ended_.end()) require_seen(infos_, infos);
  if (autoreset_ != Autoreset::kNextStep) return;
  const auto still = find(infos, kWaits);
  if (still)
    std::copy_n(numbers<bool>(still, envs_, "the flags of waiting environments").data(), envs_,
                reinterpret_cast<bool*>(waiting_.data()));
  else
    waiting_ = ended_;
  std::ranges::copy(waiting_, out.waits);
}

// SAME_STEP: the last results of an episode are in the infos.
void PythonVectorEnv::take_finals(const py::object& infos, const shoal_gymnasium_vector_out& out) {
  const auto last = find(infos, "final_obs");
  require(static_cast<bool>(last),
          "the infos have no 'final_obs' though an episode ended, expected it of a vector "
          "environment with the autoreset_mode SameStep");
  write_lanes(last, out.final_observation, ended_.data());
  const auto of_last = find(infos, "final_info");
  // Those in `infos` may be of the reset.
  if (!infos_.empty() && of_last) write_infos(of_last, out.info, ended_.data());
  if (out.final_mask != nullptr) {
    const auto choices = static_cast<std::size_t>(action_->single_choice());
    std::fill_n(out.final_mask, choices * envs_, std::uint8_t{1});
    if (of_last && find(of_last, kMask)) write_masks(of_last, out.final_mask, ended_.data());
  }
}

// The last observations are where the next ones belong.
void PythonVectorEnv::keep_finals(const shoal_gymnasium_vector_out& out) const {
  const auto sizes = one_->sizes();
  const auto choices = static_cast<std::size_t>(action_->single_choice());
  for (std::size_t i = 0; i < envs_; ++i) {
    if (ended_[i] == 0) continue;
    for (std::size_t f = 0; f < sizes.size(); ++f)
      std::memcpy(out.final_observation[f] + i * sizes[f], out.observation[f] + i * sizes[f],
                  sizes[f]);
    if (out.mask != nullptr)
      std::memcpy(out.final_mask + i * choices, out.mask + i * choices, choices);
  }
}

// DISABLED: Gymnasium's option resets some of the environments.
void PythonVectorEnv::reset_ended(const shoal_gymnasium_vector_out& out) {
  py::dict options;
  options["reset_mask"] = py::array_t<bool>(static_cast<py::ssize_t>(envs_),
                                            reinterpret_cast<const bool*>(ended_.data()));
  const auto result =
      parts_of(reset_(py::arg("options") = options), 2, "reset()", "observations and infos");
  write_lanes(result[0], out.observation, ended_.data());
  if (out.mask != nullptr) write_masks(result[1], out.mask, ended_.data());
}

// Writes the observations of the chosen environments. values: an object array of observations, or a
// batch.
void PythonVectorEnv::write_lanes(const py::object& values, std::uint8_t* const* to,
                                  const std::uint8_t* only) const {
  const auto sizes = one_->sizes();
  std::vector<std::uint8_t*> places(sizes.size());
  for (std::size_t i = 0; i < envs_; ++i) {
    if (only[i] == 0) continue;
    for (std::size_t f = 0; f < sizes.size(); ++f) places[f] = to[f] + i * sizes[f];
    one_->write(lane_of(values, py::int_(i)), places.data());
  }
}

// only: the environments to write; null: all.
void PythonVectorEnv::write_masks(const py::object& infos, std::uint8_t* to,
                                  const std::uint8_t* only) const {
  const auto found = find(infos, kMask);
  require(static_cast<bool>(found),
          "infos have no \"{}\", which the first reset() gave; expected one at every reset and "
          "step",
          kMask);
  const auto choices = static_cast<std::size_t>(action_->single_choice());
  const auto masks = numbers<bool>(found, choices * envs_, "the action masks");
  for (std::size_t i = 0; i < envs_; ++i)
    if (only == nullptr || only[i] != 0)
      std::memcpy(to + i * choices, masks.data() + i * choices, choices);
}

void PythonVectorEnv::write_infos(const py::object& infos, float* const* to,
                                  const std::uint8_t* only) {
  for (std::size_t k = 0; k < infos_.size(); ++k) {
    auto& one = infos_[k];
    const auto found = one.find_in(infos);
    py::object values;
    const float* from = nullptr;
    if (found) {
      const auto array = numbers<float>(found, envs_, "the infos '" + one.name + "'");
      from = array.data();
      values = array;
    }
    for (std::size_t i = 0; i < envs_; ++i)
      if (only == nullptr || only[i] != 0) to[k][i] = from == nullptr ? 0.0F : from[i];
  }
}

}  // namespace shoal::python
