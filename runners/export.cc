#include "shoal/runners/export.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/runners/files.h"
#include "shoal/runners/version.h"

namespace shoal {
namespace {

using torch::jit::Stack;

// A valid name of a TorchScript attribute.
std::string identifier(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

// n observations, as a caller passes them, then the mask if there is one.
Stack random_inputs(const EnvSpec& env, std::int64_t n) {
  Stack inputs;
  for (const auto& [name, spec] : env.observation) {
    std::vector<std::int64_t> shape{n};
    if (spec.stack > 1) shape.push_back(spec.stack);
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    const auto type = torch_dtype(spec.dtype);
    inputs.emplace_back(at::isFloatingType(type) ? at::randn(shape, type)
                                                 : at::randint(0, 2, shape, at::kLong).to(type));
  }
  if (env.action_mask) inputs.emplace_back(at::ones({n, env.action[0].choices[0]}, at::kBool));
  return inputs;
}

Stack outputs_of(Agent& agent, const EnvSpec& env, const Stack& inputs) {
  Observations observation;
  for (std::size_t i = 0; i < env.observation.size(); ++i)
    observation.add(env.observation.name(i), {inputs[i].toTensor(), {}});
  const auto out =
      agent.greedy(observation, env.action_mask ? inputs.back().toTensor() : at::Tensor());
  std::vector<c10::IValue> values;
  for (const auto& [name, action] : out.action) values.emplace_back(action);
  values.emplace_back(out.value);
  return {c10::ivalue::Tuple::create(std::move(values))};
}

// By TorchScript name. Without the tensors of the normalization, which the code holds as constants,
// and those of the target network.
NamedTensors attributes_of(Agent& agent) {
  NamedTensors all;
  for (const auto& [name, tensor] : agent.parameters())
    if (!name.starts_with("normalizer/") && !name.starts_with("target/"))
      all.add(identifier(name), tensor);
  return all;
}

bool normalizes(Agent& agent) {
  return std::ranges::any_of(agent.parameters(),
                             [](const auto& p) { return p.first.starts_with("normalizer/"); });
}

torch::jit::Module trace(Agent& agent, const EnvSpec& env) {
  torch::jit::Module module("ShoalPolicy");
  // The tracer recognises parameters by identity.
  for (const auto& [name, tensor] : attributes_of(agent)) module.register_buffer(name, tensor);
  constexpr std::int64_t kTraced = 2;
  const auto no_names = [](const torch::autograd::Variable&) { return std::string(); };
  const auto traced = torch::jit::tracer::trace(
      random_inputs(env, kTraced),
      [&](const Stack& inputs) { return outputs_of(agent, env, inputs); }, no_names,
      /*strict=*/true, /*force_outplace=*/false, &module);
  const auto name = c10::QualifiedName(*module.type()->name(), "forward");
  module.type()->addMethod(
      module._ivalue()->compilation_unit()->create_function(name, traced.first->graph));
  return module;
}

// Whether the trace and the agent agree for another number of observations.
bool is_equal(torch::jit::Module& module, Agent& agent, const EnvSpec& env) {
  constexpr std::int64_t kOther = 7;
  const auto inputs = random_inputs(env, kOther);
  const auto expected = outputs_of(agent, env, inputs)[0].toTuple();
  c10::IValue found;
  try {
    found = module.forward(inputs);
  } catch (const std::exception&) {  // an operation does not take this number
    return false;
  }
  for (std::size_t i = 0; i < expected->elements().size(); ++i) {
    const auto e = expected->elements()[i].toTensor().to(at::kDouble),
               f = found.toTuple()->elements()[i].toTensor().to(at::kDouble);
    if (e.sizes() != f.sizes() || !at::allclose(e, f, 1e-4, 1e-4)) return false;
  }
  return true;
}

nlohmann::ordered_json described(const std::string& name, const ArraySpec& spec) {
  nlohmann::ordered_json shape = {"N"};
  if (spec.stack > 1) shape.push_back(spec.stack);
  for (const auto n : spec.shape) shape.push_back(n);
  nlohmann::ordered_json all = {{"name", name}, {"dtype", name_of(spec.dtype)}, {"shape", shape}};
  if (std::isfinite(spec.low)) all["low"] = spec.low;
  if (std::isfinite(spec.high)) all["high"] = spec.high;
  return all;
}

const std::string& or_else(const std::string& name, const std::string& otherwise) {
  return name.empty() ? otherwise : name;
}

}  // namespace

namespace {

// The policy as a TorchScript archive. On a full disk, LibTorch's own file writer ends the program.
std::string exported(Agent& agent, const EnvSpec& env) {
  auto module = trace(agent, env);
  require(is_equal(module, agent, env),
          "the model of {} cannot be exported: its trace is wrong for another number of "
          "observations; flatten with -1, and do not branch on values",
          env.id);
  // The exported policy needs no gradients.
  for (const auto& [name, tensor] : attributes_of(agent))
    module.setattr(name, tensor.detach().clone());
  std::ostringstream content;
  module.save(content);
  return std::move(content).str();
}

}  // namespace

void export_policy(Agent& agent, const EnvSpec& env, const std::filesystem::path& file) {
  require(agent.device().is_cpu(), "the agent is on {}; move it to the CPU to export it",
          agent.device().str());
  // Blanks in a stack must stay zeros, but are indistinguishable among the numbers of a caller.
  for (const auto& [name, spec] : env.observation)
    require(spec.stack == 1 || !at::isFloatingType(torch_dtype(spec.dtype)) || !normalizes(agent),
            "observation '{}' of {} is a stack of numbers that the agent normalizes; such a policy "
            "cannot be exported",
            name, env.id);
  const torch::NoGradGuard no_grad;
  std::string content;
  try {
    content = exported(agent, env);
  } catch (const c10::Error& e) {
    torch::jit::tracer::abandon();
    throw Error("the policy cannot be exported: {}", e.what_without_backtrace());
  }
  write_file(file, content);
}

std::string describe_policy(const Config& config, const EnvSpec& env) {
  auto inputs = nlohmann::ordered_json::array(), outputs = inputs;
  for (const auto& [name, spec] : env.observation)
    inputs.push_back(described(or_else(name, "observation"), spec));
  if (env.action_mask)
    inputs.push_back(
        described("mask", {.dtype = DType::kBool, .shape = {env.action[0].choices[0]}}));
  for (const auto& [name, action] : env.action) {
    auto array = action.array();
    if (action.kind == ActionSpec::Kind::kBox) {
      array.low = action.low;
      array.high = action.high;
    }
    outputs.push_back(described(or_else(name, "action"), array));
    if (!action.choices.empty()) outputs.back()["choices"] = action.choices;
  }
  outputs.push_back(described("value", {}));
  nlohmann::ordered_json settings;
  const bool atari = config.env_id.starts_with("ALE/");
  for (const auto& [key, value, doc] : setting_docs(config))
    if (key.starts_with("env.") || (atari && key.starts_with("atari.")))
      settings[key] = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  return nlohmann::ordered_json{{"shoal", kVersion},
                                {"env", env.id},
                                {"inputs", inputs},
                                {"outputs", outputs},
                                {"settings", settings}}
             .dump(2) +
         "\n";
}

}  // namespace shoal
