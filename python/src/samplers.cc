#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <atomic>

#include "bindings.h"
#include "interruptible.h"
#include "runners/fix_sampler.h"
#include "shoal/samplers/async_sampler.h"
#include "shoal/samplers/sampler.h"
#include "src/envs/construction.h"

namespace shoal::bindings {
namespace {

// A sampler with the agents that it needs.
struct BoundSampler {
  std::shared_ptr<BoundAgent> agent;
  Config config;                 // with the sampler that was chosen
  std::unique_ptr<Agent> actor;  // the acting copy of an asynchronous sampler
  Owned<Sampler> sampler{"sampler"};
  std::atomic<std::int64_t> collected = 0;
  std::atomic<bool> is_closed = false;

  // One thread at a time uses the sampler, and its agent.
  template <class Act>
  auto use(const Act& act) {
    return agent->use([&](Agent&) { return sampler.use(act); });
  }

  BoundSampler(std::shared_ptr<BoundAgent> of, Config settings)
      : agent(std::move(of)), config(std::move(settings)) {}
};

// A rollout: that of the last collect(), in memory of the sampler, or a copy of it.
class BoundBatch {
 public:
  BoundBatch(std::shared_ptr<BoundSampler> sampler, std::int64_t number, const Batch& batch)
      : sampler_(std::move(sampler)), number_(number), batch_(batch) {}

  const std::shared_ptr<BoundAgent>& agent() const { return sampler_->agent; }
  const Samples& samples() const { return batch().samples; }
  const Batch& batch() const {
    require(number_ == sampler_->collected && !sampler_->is_closed,
            "this batch is of an earlier collect(), which a later collect() or close() has "
            "overwritten; read it before, or keep tensors with clone()");
    return batch_;
  }

 private:
  std::shared_ptr<BoundSampler> sampler_;
  std::int64_t number_;
  Batch batch_;
};

// The sampler steps environments whose arrays the agent was made for.
void require_same_spaces(const EnvSpec& agent, const EnvSpec& env) {
  const auto same = [](const ArraySpec& a, const ArraySpec& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.stack == b.stack;
  };
  bool equal = agent.observation.size() == env.observation.size() &&
               agent.action.size() == env.action.size() && agent.action_mask == env.action_mask;
  for (std::size_t i = 0; equal && i < env.observation.size(); ++i)
    equal = agent.observation.name(i) == env.observation.name(i) &&
            same(agent.observation[i], env.observation[i]);
  for (std::size_t i = 0; equal && i < env.action.size(); ++i)
    equal = agent.action[i].kind == env.action[i].kind &&
            agent.action[i].choices == env.action[i].choices &&
            agent.action[i].dims == env.action[i].dims;
  require(equal,
          "the sampler's environment {} has other spaces than {}, for which the agent was made; "
          "make the agent for this environment",
          env.id, agent.id);
}

std::shared_ptr<BoundSampler> make_bound_sampler(Config config, std::shared_ptr<BoundAgent> agent,
                                                 const NamedTensors& saved, bool host_rollouts) {
  validate_sampling(config);
  const auto make_env = make_env_factory(config);
  const auto env = traits_of(make_env, {}, config.sampler.reset_limit);
  require_same_spaces(agent->env, env.spec);
  if (config.sampler.kind == SamplerKind::kAuto) {
    config.threads = at::get_num_threads();
    agent->use(
        [&](Agent& learning) { fix_sampler(config, make_env, learning, env.batch.multiple); });
  }
  auto bound = std::make_shared<BoundSampler>(std::move(agent), config);
  auto options = training_sampler(config);
  options.host_rollouts = options.host_rollouts || host_rollouts;
  bound->agent->use([&](Agent& learning) {
    if (config.asynchronous) {
      require(
          !bound->agent->own_module,
          "sampler.asynchronous: found true with a TorchAgent, which has no copy that acts while "
          "it learns; set it to false");
      bound->actor = make_agent(bound->agent->config, bound->agent->env);
      bound->sampler.open(
          make_async_sampler(make_env, learning, *bound->actor, options, config.async, saved));
    } else {
      bound->sampler.open(make_sampler(make_env, learning, options, saved));
    }
  });
  return bound;
}

void close(BoundSampler& s) {
  s.is_closed = true;
  const py::gil_scoped_release unlocked;
  s.sampler.close();
}

py::list episodes(const Batch& batch) {
  py::list all;
  for (const auto& e : batch.episodes) {
    py::dict d;
    d["env"] = e.env;
    d["length"] = e.length;
    d["reward"] = e.reward;
    d["score"] = e.score;
    for (std::size_t i = 0; i < batch.infos.size(); ++i) d[py::str(batch.infos[i])] = e.info[i];
    all.append(d);
  }
  return all;
}

// [T+1, B, stack, ...].
at::Tensor stacked(const Samples& s, const Observed& o) {
  const auto dense = o.dense();
  auto shape = dense.sizes().vec();
  shape.erase(shape.begin());
  shape.insert(shape.begin(), {s.T + 1, s.B});
  return dense.view(shape);
}

// The final observations of episodes, by the step and the environment in which they ended.
py::dict final_obs(const Samples& s) {
  const auto& f = s.final_obs;
  py::dict d;
  d["t"] = f.t;
  d["b"] = f.b;
  d["observation"] = one_or_dict(f.observation, [](const Observed& o) { return o.dense(); });
  d["value"] = f.value;
  return d;
}

std::string describe(const BoundBatch& b) {
  const auto& s = b.samples();
  std::string text = fmt::format("Batch(T={}, B={}, steps={}, episodes={}", s.T, s.B, s.steps,
                                 b.batch().episodes.size());
  const auto add = [&](const char* what, const NamedTensors& tensors) {
    for (const auto& [name, t] : tensors)
      text += fmt::format(",\n  {}{} {} {}", what, name.empty() ? "" : "[" + name + "]",
                          shape_of(t), c10::toString(t.scalar_type()));
  };
  add("observation", s.observation);
  add("action", s.action);
  add("agent_info", s.agent_info);
  add("reward", NamedTensors(s.reward));
  return text + ")";
}

using Class = py::class_<BoundBatch>;

void add(Class& c, const char* name, NamedTensors Samples::*member, const char* doc) {
  c.def_property_readonly(
      name, [member](const BoundBatch& b) { return one_or_dict(b.samples().*member); }, doc);
}

void add(Class& c, const char* name, at::Tensor Samples::*member, const char* doc) {
  c.def_property_readonly(
      name, [member](const BoundBatch& b) { return b.samples().*member; }, doc);
}

void bind_batch(py::module_& m) {
  Class c(m, "Batch",
          "A rollout of T steps of B environments. Its tensors view the sampler's shared memory, "
          "which the next collect() overwrites: clone() the ones to keep. A batch that was "
          "overwritten raises Error.");
  add(c, "observation", &Samples::observation, "[T+1, B, ...]; of stacked frames the newest one");
  c.def_property_readonly(
      "stacked_observation",
      [](const BoundBatch& b) {
        const auto& s = b.samples();
        return one_or_dict(s.observed, [&](const Observed& o) { return stacked(s, o); });
      },
      "[T+1, B, stack, ...]; without stacked frames [T+1, B, ...]. A copy where frames are "
      "stacked");
  add(c, "action", &Samples::action, "[T, B, ...]");
  add(c, "mask", &Samples::mask, "[T+1, B, n] bool, true: legal. {} without action masks");
  c.def_property_readonly(
      "agent_info", [](const BoundBatch& b) { return as_dict(b.samples().agent_info); },
      "A dict of [T, B, ...] that the agent recorded: log_prob, value, ...");
  c.def_property_readonly(
      "env_info", [](const BoundBatch& b) { return as_dict(b.samples().env_info); },
      "A dict of [T, B, ...]");
  add(c, "initial_state", &Samples::initial_state, "[B, ...]: the recurrent state before step 0");
  add(c, "reward", &Samples::reward, "[T, B] float32");
  add(c, "terminated", &Samples::terminated, "[T, B] bool");
  add(c, "truncated", &Samples::truncated, "[T, B] bool");
  add(c, "valid", &Samples::valid, "[T, B] bool: false where the environment waited");
  add(c, "is_first", &Samples::is_first, "[T+1, B] bool: this observation starts an episode");
  add(c, "bootstrap_value", &Samples::bootstrap_value, "[B] float32: the value of row T");
  add(c, "final_value", &Samples::final_value,
      "[T, B] float32: the value of the true last observation where truncated, else 0");
  c.def_property_readonly(
      "final_obs", [](const BoundBatch& b) { return final_obs(b.samples()); },
      "The true last observations of the K episodes that ended: lists t and b, observation "
      "[K, ...], value [K]");
  c.def_property_readonly(
      "steps", [](const BoundBatch& b) { return b.samples().steps; },
      "Valid steps: T * B, unless environments wait");
  c.def_property_readonly(
      "shape", [](const BoundBatch& b) { return std::pair(b.samples().T, b.samples().B); },
      "(T, B)");
  c.def_property_readonly(
      "episodes", [](const BoundBatch& b) { return episodes(b.batch()); },
      "Dicts of the episodes that ended: env, length, reward, score, ...");
  c.def("__repr__", [](const BoundBatch& b) { return describe(b); });
}

}  // namespace

std::function<const Samples&()> samples_of(const py::handle& batch) {
  const auto& bound = batch.cast<const BoundBatch&>();
  return [&bound]() -> const Samples& { return bound.samples(); };
}

std::shared_ptr<BoundAgent> agent_of(const py::handle& batch) {
  return batch.cast<const BoundBatch&>().agent();
}

void bind_samplers(py::module_& m) {
  bind_batch(m);
  py::class_<BoundSampler, std::shared_ptr<BoundSampler>>(m, "Sampler",
                                                          "Steps B environments T times per call.")
      .def(py::init([](const Config& config, const std::shared_ptr<BoundAgent>& agent,
                       const TensorDict& state, bool host_rollouts) {
             const auto saved = named(state);
             return interruptible(
                 [&] { return make_bound_sampler(config, agent, saved, host_rollouts); });
           }),
           py::arg("config"), py::arg("agent"), py::arg("state"), py::arg("host_rollouts"))
      .def("save",
           [](BoundSampler& s) {
             ++s.collected;
             return as_dict(interruptible([&] {
               return s.use([](Sampler& each) { return each.save(/*reset_others=*/true); });
             }));
           })
      .def("collect",
           [](const std::shared_ptr<BoundSampler>& s) {
             const auto number = ++s->collected;
             return BoundBatch(s, number, interruptible([&] {
                                 return s->use([](Sampler& each) {
                                   auto batch = each.collect();
                                   require_finite_info(batch.samples.agent_info);
                                   return batch;
                                 });
                               }));
           })
      .def_readonly("config", &BoundSampler::config)
      .def("close", &close);
}

}  // namespace shoal::bindings
