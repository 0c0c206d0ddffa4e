#include <fmt/ranges.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "bindings.h"
#include "interruptible.h"
#include "shoal/agents/actor_critic.h"
#include "shoal/models/actor_critic.h"
#include "src/envs/construction.h"

namespace shoal::bindings {
namespace {

// An object of Python that C++ may release at any time.
std::shared_ptr<PyObject> shared(const py::object& object) {
  return {py::object(object).release().ptr(), [](PyObject* p) {
            if (Py_IsInitialized() == 0) return;
            const py::gil_scoped_acquire lock;
            Py_DECREF(p);
          }};
}

// Puts modules that are in training mode in evaluation mode, and back. With the GIL.
class InEvaluation {
 public:
  explicit InEvaluation(const py::handle& modules) {
    for (const auto& each : modules)
      if (each.attr(kTraining).cast<bool>()) {
        set(each, false);
        changed_.push_back(each);
      }
  }
  ~InEvaluation() {
    for (const auto& each : changed_) set(each, true);
  }
  InEvaluation(const InEvaluation&) = delete;
  InEvaluation& operator=(const InEvaluation&) = delete;

 private:
  static constexpr const char* kTraining = "training";
  // Module.__setattr__ takes ten times as long, and is called for every module of every action.
  static void set(const py::handle& module, bool training) {
    const py::dict own = module.attr("__dict__");
    if (own.contains(kTraining))
      own[kTraining] = training;
    else
      module.attr(kTraining) = training;
  }
  std::vector<py::handle> changed_;
};

// A torch.nn.Module: observation -> (policy [N, policy_size], value [N] or [N, 1]). With a state:
// observation [T, N, ...], state [N, ...], is_first [T, N] -> (policy [T, N, policy_size],
// value [T, N] or [T, N, 1], state after the last step). Its parameters are this model's, by their
// names with "/" for ".". It acts in evaluation mode, and learns in the mode that it is in.
class PythonModel : public ActorCriticModel {
 public:
  PythonModel(const py::object& module, std::int64_t outputs, NamedSpecs state)
      : module_(shared(module)),
        modules_(shared(py::list(module.attr("modules")()))),
        outputs_(outputs),
        state_(std::move(state)),
        contents_(contents()) {
    for (const auto& item : module.attr("named_parameters")()) {
      const auto [name, tensor] = item.cast<std::pair<std::string, at::Tensor>>();
      register_parameter(in_cpp(name), tensor, tensor.requires_grad());
    }
    for (const auto& item : module.attr("named_buffers")()) {
      const auto [name, tensor] = item.cast<std::pair<std::string, at::Tensor>>();
      register_buffer(in_cpp(name), tensor);
    }
  }

  NamedSpecs state() const override { return state_; }

  ModelOut forward(const ModelIn& in) override {
    const py::gil_scoped_acquire lock;
    const py::handle module(module_.get());
    const bool memory = !state_.empty();
    const auto n = in.observation[0].size();
    std::vector<std::int64_t> rows{n};
    if (memory) rows = {in.time, n / in.time};
    std::vector<std::pair<at::Tensor, std::int64_t>> given;
    const auto keep = [&](const at::Tensor& t) {
      if (!t.is_inference()) given.emplace_back(t, t._version());
      return t;
    };
    const auto dense = one_or_dict(
        in.observation, [&](const Observed& o) { return keep(with_rows(o.dense(), rows)); });
    std::optional<InEvaluation> acting;
    if (!at::GradMode::is_enabled()) acting.emplace(py::handle(modules_.get()));
    const py::object result =
        memory ? module(dense, one_or_dict(in.state, keep), keep(with_rows(in.is_first, rows)))
               : module(dense);
    acting.reset();
    if (at::GradMode::is_enabled())
      require(contents() == contents_,
              "the module has replaced one of its parameters, buffers or parts since the agent was "
              "made, which would be neither learned nor saved; change tensors in place, for "
              "example with self.mean.copy_(...)");
    for (const auto& [tensor, version] : given)
      require(
          tensor._version() == version,
          "the module changed an input in place, which the rollout keeps; make a new tensor, for "
          "example with x = x - 1 instead of x -= 1");
    const char* expected = memory ? "(policy, value, state)" : "(policy, value)";
    require(py::isinstance<py::tuple>(result) && py::len(result) == (memory ? 3 : 2),
            "the module returned {}, expected {}", described(result), expected);
    auto shape = rows;
    shape.push_back(outputs_);
    const auto policy = tensor_of("policy", result[py::int_(0)], shape);
    const auto value = tensor_of("value", result[py::int_(1)], rows);
    require(policy.sizes() == at::IntArrayRef(shape),
            "the module returned a policy of the shape {}, expected [{}]", shape_of(policy),
            fmt::join(shape, ", "));
    require(value.numel() == n, "the module returned a value of the shape {}, expected [{}]",
            shape_of(value), fmt::join(rows, ", "));
    return {policy.reshape({n, outputs_}), value.reshape({n}),
            memory ? state_of(result[py::int_(2)], in.state) : NamedTensors{}};
  }

 private:
  static at::Tensor tensor_of(const char* what, const py::object& given,
                              const std::vector<std::int64_t>& shape) {
    require(THPVariable_Check(given.ptr()),
            "the module returned a {} of {}, expected a tensor [{}]", what,
            std::string(py::str(py::type::of(given))), fmt::join(shape, ", "));
    return given.cast<at::Tensor>();
  }

  static std::string described(const py::object& result) {
    std::string type(py::str(py::type::of(result)));
    return py::isinstance<py::tuple>(result) ? fmt::format("{} values", py::len(result)) : type;
  }

  // [N, ...] as [rows..., ...].
  static at::Tensor with_rows(const at::Tensor& t, const std::vector<std::int64_t>& rows) {
    auto shape = rows;
    shape.insert(shape.end(), t.sizes().begin() + 1, t.sizes().end());
    return t.reshape(shape);
  }

  // The state that the module returned, in the form of the one that it was given.
  NamedTensors state_of(const py::object& returned, const NamedTensors& given) const {
    NamedTensors all;
    for (const auto& [name, before] : given) {
      const auto t =
          (name.empty() ? returned : py::object(returned[py::str(name)])).cast<at::Tensor>();
      require(t.sizes() == before.sizes() && t.scalar_type() == before.scalar_type(),
              "the module returned a state{} of {} {}, expected {} {}",
              name.empty() ? "" : " '" + name + "'", c10::toString(t.scalar_type()), shape_of(t),
              c10::toString(before.scalar_type()), shape_of(before));
      all.add(name, t);
    }
    return all;
  }

  // Which objects the modules consist of, but for buffers that are not to be saved, which hold what
  // forward() may make anew. named_parameters() would take as long as a small forward().
  std::vector<PyObject*> contents() const {
    std::vector<PyObject*> all;
    for (const auto& each : py::handle(modules_.get())) {
      const py::set left_out = each.attr("_non_persistent_buffers_set");
      for (const auto* part : {"_parameters", "_buffers", "_modules"})
        for (const auto& item : py::dict(each.attr(part)))
          if (!left_out.contains(item.first)) all.push_back(item.second.ptr());
    }
    return all;
  }

  static std::string in_cpp(std::string name) {
    std::ranges::replace(name, '.', '/');
    return name;
  }

  std::shared_ptr<PyObject> module_, modules_;  // modules_: a list of it and the modules in it
  std::int64_t outputs_;
  NamedSpecs state_;
  std::vector<PyObject*> contents_;
};

using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

// state: the shape of each array of one environment's state.
std::shared_ptr<BoundAgent> make_torch_agent(const Config& config, const py::object& module,
                                             const Shapes& state) {
  const auto env = interruptible([&] {
    validate(config);
    return spec_of(make_env_factory(config), {}, config.sampler.reset_limit);
  });
  require(!is_off_policy(config), "algo: found {}, expected an on-policy one for a TorchAgent",
          config.algo);
  NamedSpecs specs;
  for (const auto& [name, shape] : state)
    specs.add(name, {.dtype = DType::kFloat32, .shape = shape});
  auto model =
      std::make_shared<PythonModel>(module, policy_size(env, config.agent), std::move(specs));
  require(!model->parameters().empty(), "the module has no parameters, expected a torch.nn.Module");
  auto agent = make_actor_critic(env, std::move(model), config.agent);
  return std::make_shared<BoundAgent>(config, env, std::move(agent), /*own_module=*/true);
}

}  // namespace

void bind_torch_agent(py::module_& m) {
  m.def("torch_agent", &make_torch_agent, py::arg("config"), py::arg("module"), py::arg("state"));
}

}  // namespace shoal::bindings
