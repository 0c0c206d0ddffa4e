#include <fmt/format.h>

#include "bindings.h"
#include "interruptible.h"
#include "shoal/data/saved.h"
#include "shoal/runners/off_policy.h"

namespace shoal::bindings {
namespace {

// An algorithm in the loop of run_on_policy() or run_off_policy(), without a session.
class BoundAlgo {
 public:
  BoundAlgo(const Config& config, std::shared_ptr<BoundAgent> agent)
      : config_(config), agent_(std::move(agent)) {
    validate(config);
    agent_->use([&](Agent& learning) {
      if (is_off_policy(config)) {
        learner_ = make_learner(config, agent_->env, learning);
        explore();
      } else {
        on_policy_ = make_algo(config, learning);
      }
    });
  }

  // act(*this) while no other thread uses the agent.
  template <class Act>
  auto use(const Act& act) {
    return agent_->use([&](Agent&) { return act(*this); });
  }

  void require_acted(const std::shared_ptr<BoundAgent>& agent) const {
    require(agent == agent_ || algo_of(config_).corrects_policy(),
            "found a batch of another agent's sampler, expected one of the agent that learns; make "
            "the sampler anew with this agent, or learn with V-trace (IMPALA, or vtrace=True)");
  }

  Metrics update(const Samples& samples) {
    const auto before = progress();
    steps_ += samples.steps;
    if (on_policy_) return samples.steps > 0 ? on_policy_->update(samples, before) : Metrics{};
    auto& replay = *learner_.replay;
    replay.append(samples);
    const auto updates = updates_due(steps_, learner_.batch, config_.off_policy) -
                         updates_due(before.steps, learner_.batch, config_.off_policy);
    auto metrics = updates > 0 && replay.size() > 0
                       ? learner_.algo->update(before, static_cast<int>(updates))
                       : Metrics{};
    explore();
    return metrics;
  }

  NamedTensors state() {
    NamedTensors all;
    add_with_prefix("algo/", algo().state(), all);
    if (learner_.replay) add_with_prefix("replay/", learner_.replay->save(), all);
    return all;
  }
  // The constructor has set the exploration of a beginning on the agent: state also has that with
  // which the loop goes on.
  void restore(std::int64_t steps, const NamedTensors& state) {
    agent_->use([&](Agent& agent) {
      restore_all(state, "algo/", algo().state());
      if (learner_.replay) learner_.replay->restore(with_prefix("replay/", state));
      for (const auto& [name, tensor] : agent.parameters())
        if (state.contains("agent/" + name)) shoal::restore(state, "agent/", {{name, tensor}});
      agent.parameters_changed();
    });
    steps_ = steps;
  }

  std::int64_t steps() const { return steps_; }
  // The option that is 0 for the next rollout; "": none.
  std::string annealed_to_0() const {
    const auto now = progress();
    return now.steps >= now.schedule_steps ? algo_of(config_).annealed_to_0() : "";
  }

 private:
  Algo& algo() { return on_policy_ ? static_cast<Algo&>(*on_policy_) : *learner_.algo; }
  Progress progress() const {
    const auto schedule = config_.schedule_steps > 0 ? config_.schedule_steps : config_.steps;
    return {.steps = steps_, .schedule_steps = schedule};
  }
  // For the next rollout.
  void explore() {
    learner_.algo->explore(progress(), steps_ >= config_.off_policy.learning_starts);
  }

  Config config_;
  std::shared_ptr<BoundAgent> agent_;
  std::unique_ptr<OnPolicyAlgo> on_policy_;
  Learner learner_;
  std::int64_t steps_ = 0;
};

py::typing::Dict<py::str, double> numbers(const Metrics& metrics) {
  py::typing::Dict<py::str, double> all;
  for (const auto& [name, value] : metrics) all[py::str(name)] = value;
  return all;
}

void warn_of_rate_0(std::int64_t steps, const std::string& option) {
  const auto text = fmt::format(
      "found {} steps, after which {} is 0; give the algorithm more with steps=..., or "
      "anneal_{}=False",
      steps, option, option == "clip" ? option : "learning_rate");
  constexpr int kCaller = 2;  // of shoal.Algo.update()
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), kCaller) != 0) throw py::error_already_set();
}

}  // namespace

void bind_algos(py::module_& m) {
  m.def("is_off_policy", &is_off_policy);
  m.def("algos", [] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& spec : AlgoSpecs()) all.emplace_back(spec->name(), spec->description());
    return all;
  });
  py::class_<BoundAlgo>(m, "Algo", "An algorithm; an off-policy one with its replay.")
      .def(py::init([](const Config& config, const std::shared_ptr<BoundAgent>& agent) {
             const py::gil_scoped_release unlocked;
             return std::make_unique<BoundAlgo>(config, agent);
           }),
           py::arg("config"), py::arg("agent"))
      .def(
          "update",
          [](BoundAlgo& algo, const py::object& batch) {
            const auto samples = samples_of(batch);
            algo.require_acted(agent_of(batch));
            if (const auto option = algo.annealed_to_0(); !option.empty())
              warn_of_rate_0(algo.steps(), option);
            return numbers(interruptible(
                [&] { return algo.use([&](BoundAlgo& own) { return own.update(samples()); }); }));
          },
          py::arg("batch"))
      .def("state",
           [](BoundAlgo& algo) {
             const auto state = [&] {
               const py::gil_scoped_release unlocked;
               return algo.use([](BoundAlgo& own) { return own.state(); });
             }();
             return as_dict(state);
           })
      .def(
          "restore",
          [](BoundAlgo& algo, std::int64_t steps, const TensorDict& state) {
            const auto tensors = named(state);
            const py::gil_scoped_release unlocked;
            algo.restore(steps, tensors);
          },
          py::arg("steps"), py::arg("state"))
      .def_property_readonly("steps", &BoundAlgo::steps);
}

}  // namespace shoal::bindings
