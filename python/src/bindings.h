#pragma once

// The conversion between at::Tensor and torch.Tensor.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <pybind11/typing.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "shoal/agents/agent.h"
#include "shoal/runners/config.h"

namespace shoal::bindings {

namespace py = pybind11;

// Throws DataError if the agent_info of rows on the CPU is not finite.
void require_finite_info(const NamedTensors& agent_info);

// Calls act() while no other thread is in a call with this mutex. May be called with the GIL.
template <class Mutex, class Act>
auto alone(Mutex& mutex, const Act& act) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) {
    std::optional<py::gil_scoped_release> unlocked;  // the other thread may need it
    if (PyGILState_Check() == 1) unlocked.emplace();
    lock.lock();
  }
  return act();
}

// An agent with the settings and the environment that it was made for.
class BoundAgent {
 public:
  BoundAgent(Config config_, EnvSpec env_, std::unique_ptr<Agent> agent, bool own_module_ = false)
      : config(std::move(config_)),
        env(std::move(env_)),
        own_module(own_module_),
        agent_(std::move(agent)) {}

  Config config;
  EnvSpec env;
  bool own_module;  // its network is a module of the user's

  // The agent, for one thread at a time, whose environments or module may use it in turn. A forked
  // process does not wait for threads of its parent. Locked before samplers.
  template <class Act>
  auto use(const Act& act) {
    if (process_ != getpid()) {
      static_cast<void>(mutex_.release());  // perhaps locked for ever
      mutex_ = std::make_unique<std::recursive_mutex>();
      process_ = getpid();
    }
    return alone(*mutex_, [&] { return act(*agent_); });
  }
  const AgentSpec& spec() const { return agent_->spec(); }

 private:
  std::unique_ptr<Agent> agent_;
  pid_t process_ = getpid();
  std::unique_ptr<std::recursive_mutex> mutex_ = std::make_unique<std::recursive_mutex>();
};

// An object with processes of its own, which one thread uses at a time. A process that was forked
// has a copy of it, which it can neither use nor end.
template <class T>
class Owned {
 public:
  explicit Owned(const char* name) : name_(name) {}
  ~Owned() {
    // Python destroys it with the GIL, for which a thread of the object may be waiting.
    std::optional<py::gil_scoped_release> unlocked;
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) unlocked.emplace();
    close();
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  void open(std::unique_ptr<T> object) { object_ = std::move(object); }
  // Waits for a call of use() in another thread. Without the GIL.
  void close() {
    if (getpid() != owner_) {
      static_cast<void>(object_.release());
      return;
    }
    const std::scoped_lock lock(mutex_);
    object_.reset();
  }
  template <class Act>
  auto use(const Act& act) const {
    require(
        getpid() == owner_,
        "the {} belongs to process {}, which made it, and this one is {}; make another one here",
        name_, owner_, getpid());
    return alone(mutex_, [&] {
      require(object_ != nullptr, "the {} is closed", name_);
      return act(*object_);
    });
  }

 private:
  const char* name_;
  pid_t owner_ = getpid();
  mutable std::mutex mutex_;
  std::unique_ptr<T> object_;
};

// A single array as itself, several as a dict.
template <class T, class Convert>
py::object one_or_dict(const Named<T>& named, Convert convert) {
  if (named.size() == 1 && named.name(0).empty()) return py::cast(convert(named[0]));
  py::dict all;
  for (const auto& [name, value] : named) all[py::str(name)] = py::cast(convert(value));
  return all;
}
using TensorDict = py::typing::Dict<py::str, at::Tensor>;
py::object one_or_dict(const NamedTensors& tensors);
TensorDict as_dict(const NamedTensors& tensors);
NamedTensors named(const TensorDict& tensors);

std::string shape_of(const at::Tensor& tensor);  // "[4, 84, 84]"
// Gives the samples of a Batch, which must outlive it. Throws Error if a later collect() has
// overwritten them: call it when no other thread can collect any more.
std::function<const Samples&()> samples_of(const py::handle& batch);
// The agent of the sampler that a batch is of.
std::shared_ptr<BoundAgent> agent_of(const py::handle& batch);

void bind_config(py::module_& m);
void bind_setting_docs(py::module_& m);
void bind_agents(py::module_& m);
void bind_samplers(py::module_& m);
void bind_replays(py::module_& m);
void bind_algos(py::module_& m);
void bind_training(py::module_& m);
void bind_torch_agent(py::module_& m);
void bind_vector_env(py::module_& m);

}  // namespace shoal::bindings
