#include "runners/policy_trace.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <cctype>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"

namespace shoal {
namespace {

using torch::jit::Stack;

at::Tensor random_tensor(const ArraySpec& spec, std::int64_t n) {
  std::vector<std::int64_t> shape{n};
  if (spec.stack > 1) shape.push_back(spec.stack);
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  const auto type = torch_dtype(spec.dtype);
  return at::isFloatingType(type) ? at::randn(shape, type)
                                  : at::randint(0, 2, shape, at::kLong).to(type);
}

const std::string& or_else(const std::string& name, const std::string& otherwise) {
  return name.empty() ? otherwise : name;
}

// By TorchScript name.
NamedTensors attributes_of(Agent& agent) {
  NamedTensors all;
  for (const auto& [name, tensor] : agent.policy_parameters())
    if (!name.starts_with("normalizer/") && !name.starts_with("target/"))
      all.add(identifier(name), tensor);
  return all;
}

Stack stack_of(const NamedTensors& tensors) {
  Stack stack;
  for (const auto& [name, tensor] : tensors) stack.emplace_back(tensor);
  return stack;
}

}  // namespace

std::string identifier(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0)
    name.insert(name.begin(), '_');
  return name;
}

NamedTensors ExportedPolicy::Outputs::all() const {
  NamedTensors all;
  for (const auto* part : {&action, &value, &distribution, &sample, &log_prob, &state})
    add_with_prefix("", *part, all);
  return all;
}

NamedTensors ExportedPolicy::random_inputs(std::int64_t n, bool sampled) const {
  NamedTensors all;
  for (const auto& [name, spec] : env_.observation)
    all.add(or_else(name, "observation"), random_tensor(spec, n));
  if (env_.action_mask) all.add("mask", at::ones({n, env_.action[0].choices[0]}, at::kBool));
  const auto& state = agent_.spec().state;
  for (const auto& [name, spec] : state) all.add(name, random_tensor(spec, n));
  if (!state.empty()) {
    all.add("is_first", at::rand({n}).lt(0.5));
    for (const auto& [name, action] : env_.action)
      all.add("previous_" + or_else(name, "action"), random_tensor(action.array(), n));
    all.add("previous_reward", at::randn({n}));
  }
  if (sampled) all.add("noise", at::rand({n, agent_.policy_noise()}));
  return all;
}

ExportedPolicy::Outputs ExportedPolicy::operator()(const NamedTensors& inputs, bool sampled) const {
  ActIn in;
  std::size_t next = 0;
  for (const auto& [name, spec] : env_.observation) in.observation.add(name, {inputs[next++], {}});
  if (env_.action_mask) in.mask.add("", inputs[next++]);
  const auto& state = agent_.spec().state;
  for (const auto& [name, spec] : state) in.state.add(name, inputs[next++]);
  if (!state.empty()) {
    in.is_first = inputs[next++];
    for (const auto& [name, action] : env_.action) in.previous_action.add(name, inputs[next++]);
    in.previous_reward = inputs[next++];
  }
  const auto out = agent_.policy_outputs(in, sampled ? inputs[next] : at::Tensor());
  Outputs named;
  named.value = {{"value", out.value}};
  named.distribution = out.distribution;
  for (const auto& [name, action] : out.action) named.action.add(or_else(name, "action"), action);
  for (const auto& [name, sample] : out.sample)
    named.sample.add(name.empty() ? "sample" : name + "/sample", sample);
  if (out.log_prob.defined()) named.log_prob = {{"log_prob", out.log_prob}};
  add_with_prefix("next_", out.state, named.state);
  return named;
}

torch::jit::Module ExportedPolicy::attributes() const {
  torch::jit::Module module("ShoalPolicy");
  // The tracer recognises parameters by identity.
  for (const auto& [name, tensor] : attributes_of(agent_)) module.register_buffer(name, tensor);
  return module;
}

void ExportedPolicy::detach(torch::jit::Module& module) const {
  for (const auto& [name, tensor] : attributes_of(agent_))
    module.setattr(name, tensor.detach().clone());
}

void ExportedPolicy::add_trace(torch::jit::Module& module, const std::string& method,
                               bool sampled) const {
  constexpr std::int64_t kTraced = 2;
  const auto inputs = random_inputs(kTraced, sampled);
  const auto named = [&](const Stack& stack) {
    NamedTensors all;
    for (std::size_t i = 0; i < inputs.size(); ++i) all.add(inputs.name(i), stack[i].toTensor());
    return all;
  };
  const auto no_names = [](const torch::autograd::Variable&) { return std::string(); };
  const auto traced = torch::jit::tracer::trace(
      stack_of(inputs),
      [&](const Stack& stack) -> Stack {
        return {c10::ivalue::Tuple::create(stack_of((*this)(named(stack), sampled).all()))};
      },
      no_names, /*strict=*/true, /*force_outplace=*/true, &module);
  const auto name = c10::QualifiedName(*module.type()->name(), method);
  module.type()->addMethod(
      module._ivalue()->compilation_unit()->create_function(name, traced.first->graph));
  require_equal(module, method, sampled);
}

// Compares the trace with the agent for another number of observations.
void ExportedPolicy::require_equal(torch::jit::Module& module, const std::string& method,
                                   bool sampled) const {
  constexpr std::int64_t kOther = 7;
  const auto inputs = random_inputs(kOther, sampled);
  const auto expected = stack_of((*this)(inputs, sampled).all());
  Stack found;
  try {
    const auto tuple = module.get_method(method)(stack_of(inputs)).toTuple();
    found.assign(tuple->elements().begin(), tuple->elements().end());
  } catch (const std::exception&) {  // an operation does not take this number
  }
  bool equal = found.size() == expected.size();
  for (std::size_t i = 0; equal && i < found.size(); ++i) {
    const auto e = expected[i].toTensor().to(at::kDouble), f = found[i].toTensor().to(at::kDouble);
    equal = e.sizes() == f.sizes() && at::allclose(e, f, 1e-4, 1e-4);
  }
  require(equal,
          "the model of {} cannot be exported: its trace is wrong for another number of "
          "observations; flatten with -1, and do not branch on values",
          env_.id);
}

}  // namespace shoal
