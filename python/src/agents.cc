#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <tuple>

#include "bindings.h"
#include "interruptible.h"
#include "shoal/core/finite.h"
#include "shoal/data/saved.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/device.h"
#include "shoal/runners/trained_agent.h"
#include "src/agents/observation_normalizer.h"
#include "src/envs/construction.h"

namespace shoal::bindings {
namespace {

at::Tensor zeros(std::int64_t n, const ArraySpec& spec) {
  auto shape = spec.shape;
  shape.insert(shape.begin(), n);
  return at::zeros(shape, at::TensorOptions(torch_dtype(spec.dtype)));
}

NamedTensors zeros(std::int64_t n, const NamedSpecs& specs) {
  NamedTensors all;
  for (const auto& [name, spec] : specs) all.add(name, zeros(n, spec));
  return all;
}

}  // namespace

void require_finite_info(const NamedTensors& agent_info) {
  if (agent_info.empty() || !agent_info[0].is_cpu()) return;  // no waiting for a GPU
  try {
    require_finite(agent_info);
  } catch (const Error& e) {
    throw DataError(fmt::format(
        "the agent's {}: its parameters, or the numbers that its module returns, are not finite",
        e.what()));
  }
}

namespace {

// Acts for N environments outside a sampler, and keeps their recurrent state.
class Policy {
 public:
  Policy(std::shared_ptr<BoundAgent> agent, std::uint64_t seed)
      : agent_(std::move(agent)), seed_(seed) {}

  // The next observations are the first of their episodes.
  void reset() {
    agent_->use([&](Agent&) { state_.reset(); });
  }

  bool has_memory() const {
    return agent_->use([](Agent& agent) { return !agent.spec().state.empty(); });
  }

  NamedTensors act(const Observations& observation, const std::optional<at::Tensor>& mask,
                   const std::optional<at::Tensor>& reward,
                   const std::optional<at::Tensor>& is_first, bool greedy) {
    return agent_->use(
        [&](Agent& agent) { return act(agent, observation, mask, reward, is_first, greedy); });
  }

  // observation: [N, ...] or a dict of them; of stacked frames [N, stack, ...].
  Observations observations(const py::object& given) const {
    Observations all;
    const auto& specs = agent_->env.observation;
    const bool single = specs.size() == 1 && specs.name(0).empty();
    for (const auto& [name, spec] : specs) {
      const py::object part = single ? given : py::object(given[py::str(name)]);
      all.add(name, observed(part.cast<at::Tensor>(), spec, name));
    }
    return all;
  }

 private:
  NamedTensors act(Agent& agent, const Observations& observation,
                   const std::optional<at::Tensor>& mask, const std::optional<at::Tensor>& reward,
                   const std::optional<at::Tensor>& is_first, bool greedy) {
    const at::NoGradGuard no_grad;
    const auto n = observation[0].size();
    const auto& env = agent_->env;
    require(
        agent.device().is_cpu(),
        "the agent is on {}, but a Policy acts on the CPU; move it there with agent.to(\"cpu\")",
        agent.device().str());
    require(mask.has_value() == env.action_mask, "mask: found {}, but {} has {}",
            mask ? "one" : "none", env.id,
            env.action_mask ? "action masks; give mask=" : "no action masks");
    NamedTensors legal;
    if (mask)
      legal = NamedTensors(checked("mask", *mask, {n, env.action[0].choices.at(0)}, at::kBool));
    std::optional<at::Tensor> first, last_reward;
    if (is_first) first = checked("is_first", *is_first, {n}, at::kBool);
    if (reward) last_reward = checked("reward", *reward, {n}, at::kFloat);
    const bool begins = !state_ || n != n_;
    n_ = n;
    if (begins) {
      state_ = zeros(n, agent.spec().state);
      action_ = actions(n);
    }
    require(
        reward || begins || !sees_rewards(),
        "reward: found none, expected the rewards [{}] of the last actions, which the memory of "
        "this policy sees; give reward=",
        n);
    ActIn in{.observation = observation,
             .state = *state_,
             .previous_action = action_,
             .previous_reward = last_reward ? *last_reward : at::zeros({n}),
             .is_first = first ? *first : at::full({n}, begins, at::kBool),
             .noise = {.seed = seed_, .tick = tick_++},
             .greedy = greedy};
    in.mask = std::move(legal);
    ActOut out{.action = actions(n),
               .agent_info = zeros(n, agent.spec().info),
               .state = zeros(n, agent.spec().state)};
    agent.act(in, out);
    require_finite_info(out.agent_info);
    state_ = out.state;
    action_ = NamedTensors();  // a copy, since the caller may change what it gets
    for (const auto& [name, part] : out.action) action_.add(name, part.clone());
    return out.action;
  }

  static at::Tensor checked(const char* name, const at::Tensor& given, at::IntArrayRef sizes,
                            at::ScalarType type) {
    require(given.sizes() == sizes, "{}: found the shape {}, expected [{}]", name, shape_of(given),
            fmt::join(sizes, ", "));
    return given.to(at::kCPU, type).contiguous();
  }
  bool sees_rewards() const {
    return !agent_->own_module && !state_->empty() && agent_->config.model.memory_sees_previous;
  }
  NamedTensors actions(std::int64_t n) const {
    NamedTensors all;
    for (const auto& [name, part] : agent_->env.action) all.add(name, zeros(n, part.array()));
    return all;
  }

  static Observed observed(const at::Tensor& data, const ArraySpec& spec, const std::string& name) {
    auto shape = spec.shape;
    if (spec.stack > 1) shape.insert(shape.begin(), spec.stack);
    require(data.dim() == std::ssize(shape) + 1 && data.sizes().slice(1) == shape,
            "observation{}: found the shape {}, expected [N, {}]",
            name.empty() ? "" : " '" + name + "'", shape_of(data), fmt::join(shape, ", "));
    const auto typed = data.to(torch_dtype(spec.dtype)).contiguous();
    require(!typed.is_floating_point() || at::isfinite(typed).all().item<bool>(),
            "observation{}: found a number that is not finite",
            name.empty() ? "" : " '" + name + "'");
    if (spec.stack == 1) return {typed, {}};
    const auto frames = typed.flatten(0, 1);
    const auto place = at::arange(frames.size(0), at::kLong).view({-1, spec.stack});
    if (!is_normalized(spec)) return {frames, place};
    // Frames of zeros before the others come from before the episode, and are not normalized.
    auto begun = frames.view({place.numel(), -1}).ne(0).any(1).view_as(place).cumsum(1).ne(0);
    begun.select(1, spec.stack - 1).fill_(true);
    return {frames, place.masked_fill(begun.logical_not(), -1)};
  }

  std::shared_ptr<BoundAgent> agent_;
  std::uint64_t seed_;
  std::int64_t tick_ = 0, n_ = 0;
  std::optional<NamedTensors> state_;
  NamedTensors action_;
};

std::shared_ptr<BoundAgent> make_bound_agent(const Config& config) {
  return interruptible([&] {
    validate(config);
    const auto env = spec_of(make_env_factory(config), {}, config.sampler.reset_limit);
    return std::make_shared<BoundAgent>(config, env, make_agent(config, env));
  });
}

void load(BoundAgent& to, const std::filesystem::path& trained, const std::string& checkpoint) {
  to.use([&](Agent& agent) { restore_trained(trained, agent, checkpoint); });
}

void save(BoundAgent& a, const std::filesystem::path& file, const std::string& algo,
          std::int64_t steps, const TensorDict& others) {
  Checkpoint checkpoint{.counters = {{"steps", steps}}, .tensors = named(others), .algo = algo};
  const py::gil_scoped_release unlocked;
  a.use([&](Agent& agent) {
    const auto parameters = agent.parameters();
    require_finite(parameters);
    add_with_prefix("agent/", parameters, checkpoint.tensors);
    write_checkpoint(file, checkpoint);
  });
}

// The algorithm, its steps, and the tensors by name.
std::tuple<std::string, std::int64_t, TensorDict> read(const std::filesystem::path& file) {
  const auto checkpoint = [&] {
    const py::gil_scoped_release unlocked;
    return read_checkpoint(file);
  }();
  return {checkpoint.algo, checkpoint.counters.at("steps"), as_dict(checkpoint.tensors)};
}

}  // namespace

TensorDict as_dict(const NamedTensors& tensors) {
  TensorDict all;
  for (const auto& [name, tensor] : tensors) all[py::str(name)] = tensor;
  return all;
}

NamedTensors named(const TensorDict& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors)
    all.add(name.cast<std::string>(), tensor.cast<at::Tensor>());
  return all;
}

py::object one_or_dict(const NamedTensors& tensors) {
  return one_or_dict(tensors, [](const at::Tensor& t) { return t; });
}

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

void bind_agents(py::module_& m) {
  py::class_<BoundAgent, std::shared_ptr<BoundAgent>>(m, "Agent", "An agent of Shoal.")
      .def(py::init(&make_bound_agent), py::arg("config"))
      .def_readonly("config", &BoundAgent::config)
      .def_readonly("env_spec", &BoundAgent::env)
      .def("parameters",
           [](BoundAgent& a) {
             return as_dict(a.use([](Agent& agent) { return agent.parameters(); }));
           })
      .def("parameters_changed",
           [](BoundAgent& a) { a.use([](Agent& agent) { agent.parameters_changed(); }); })
      .def("load", &load, py::arg("trained"), py::arg("checkpoint") = kCheckpointFile)
      .def("save", &save, py::arg("file"), py::arg("algo"), py::arg("steps"), py::arg("others"))
      .def(
          "to",
          [](BoundAgent& a, const std::string& device) {
            const py::gil_scoped_release unlocked;
            a.use([&](Agent& agent) { move_to_device(agent, device); });
          },
          py::arg("device"));
  m.def("read_checkpoint", &read, "Algorithm, steps and tensors of a checkpoint.", py::arg("file"));
  py::class_<Policy>(m, "Policy", "Acts for N environments outside a sampler.")
      .def(py::init<std::shared_ptr<BoundAgent>, std::uint64_t>(), py::arg("agent"),
           py::arg("seed"))
      .def("reset", &Policy::reset)
      .def_property_readonly("has_memory", &Policy::has_memory)
      .def(
          "act",
          [](Policy& p, const py::object& observation, const std::optional<at::Tensor>& mask,
             const std::optional<at::Tensor>& reward, const std::optional<at::Tensor>& is_first,
             bool greedy) {
            const auto observations = p.observations(observation);
            const auto action = [&] {
              const py::gil_scoped_release unlocked;
              return p.act(observations, mask, reward, is_first, greedy);
            }();
            return one_or_dict(action);
          },
          py::arg("observation"), py::arg("mask"), py::arg("reward"), py::arg("is_first"),
          py::arg("greedy"));
}

}  // namespace shoal::bindings
