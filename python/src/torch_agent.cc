#include <torch/nn/module.h>

#include <algorithm>

#include "bindings.h"
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

// A torch.nn.Module: observation -> (policy [N, policy_size], value [N] or [N, 1]). Its parameters
// are this model's, by their names with "/" for ".".
class PythonModel : public ActorCriticModel {
 public:
  PythonModel(const py::object& module, std::int64_t outputs)
      : module_(shared(module)), outputs_(outputs) {
    for (const auto& item : module.attr("named_parameters")()) {
      const auto [name, tensor] = item.cast<std::pair<std::string, at::Tensor>>();
      register_parameter(in_cpp(name), tensor, tensor.requires_grad());
    }
    for (const auto& item : module.attr("named_buffers")()) {
      const auto [name, tensor] = item.cast<std::pair<std::string, at::Tensor>>();
      register_buffer(in_cpp(name), tensor);
    }
  }

  ModelOut forward(const ModelIn& in) override {
    const py::gil_scoped_acquire lock;
    const auto dense = one_or_dict(in.observation, [](const Observed& o) { return o.dense(); });
    const auto result = py::handle(module_.get())(dense);
    require(py::isinstance<py::tuple>(result) && py::len(result) == 2,
            "the module returned {}, expected (policy, value)",
            std::string(py::str(py::type::of(result))));
    const auto [policy, value] = result.cast<std::pair<at::Tensor, at::Tensor>>();
    const auto n = in.observation[0].size();
    require(policy.dim() == 2 && policy.size(0) == n && policy.size(1) == outputs_,
            "the module returned a policy of the shape {}, expected [{}, {}]", shape_of(policy), n,
            outputs_);
    require(value.numel() == n, "the module returned a value of the shape {}, expected [{}]",
            shape_of(value), n);
    return {policy, value.reshape({n}), {}};
  }

 private:
  static std::string in_cpp(std::string name) {
    std::ranges::replace(name, '.', '/');
    return name;
  }

  std::shared_ptr<PyObject> module_;
  std::int64_t outputs_;
};

std::shared_ptr<BoundAgent> make_torch_agent(const Config& config, const py::object& module) {
  const auto env = [&] {
    const py::gil_scoped_release unlocked;
    validate(config);
    return spec_of(make_env_factory(config), {}, config.sampler.reset_limit);
  }();
  require(!is_off_policy(config), "algo: found {}, expected an on-policy one for a TorchAgent",
          config.algo);
  auto model = std::make_shared<PythonModel>(module, policy_size(env, config.agent));
  require(!model->parameters().empty(), "the module has no parameters, expected a torch.nn.Module");
  auto agent = make_actor_critic(env, std::move(model), config.agent);
  return std::make_shared<BoundAgent>(config, env, std::move(agent), /*own_module=*/true);
}

}  // namespace

void bind_torch_agent(py::module_& m) {
  m.def("torch_agent", &make_torch_agent, py::arg("config"), py::arg("module"));
}

}  // namespace shoal::bindings
