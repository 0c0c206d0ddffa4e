#include "shoal/runners/export.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "runners/export_formats.h"
#include "runners/policy_trace.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/files.h"
#include "shoal/runners/version.h"
#include "src/agents/observation_normalizer.h"

namespace shoal {
namespace {

using Words = std::vector<std::string>;

bool normalizes(Agent& agent) {
  return std::ranges::any_of(agent.parameters(),
                             [](const auto& p) { return p.first.starts_with("normalizer/"); });
}

Words identifiers(const NamedTensors& tensors) {
  Words words;
  for (const auto& [name, tensor] : tensors) words.push_back(identifier(name));
  return words;
}

// A method of TorchScript that calls a traced one, for a batch or for one observation without the
// batch's axis.
struct Method {
  std::string name, traced, before_call;
  Words inputs, given;    // parameters, and the arguments of the traced method
  Words outputs, result;  // of the traced method, and of this one
  std::string seed;       // a further parameter; may be empty
  std::int64_t axes;      // of the first input, with the batch's
};

std::string script(const Method& m) {
  std::string text =
      fmt::format("def {}(self, {}{}):\n    one = {}.dim() == {}\n    if one:\n", m.name,
                  fmt::join(m.inputs, ", "), m.seed, m.inputs[0], m.axes - 1);
  for (const auto& x : m.inputs) text += fmt::format("        {0} = {0}.unsqueeze(0)\n", x);
  text += m.before_call;
  text += fmt::format("    {} = self.{}({})\n    if one:\n", fmt::join(m.outputs, ", "), m.traced,
                      fmt::join(m.given, ", "));
  for (const auto& x : m.result) text += fmt::format("        {0} = {0}.squeeze(0)\n", x);
  return text + fmt::format("    return {}\n", fmt::join(m.result, ", "));
}

Words joined(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// forward(), distribution() and sample() of the exported module.
void add_methods(torch::jit::Module& module, const ExportedPolicy& policy) {
  policy.add_trace(module, "greedy_batch", /*sampled=*/false);
  const auto inputs = policy.random_inputs(1, false);
  const auto out = policy(inputs, false);
  Words outputs;
  for (std::size_t i = 0; i < out.all().size(); ++i) outputs.push_back(fmt::format("y{}", i));
  const auto part = [&](std::size_t from, std::size_t n) {
    const auto first = outputs.begin() + static_cast<std::ptrdiff_t>(from);
    return Words(first, first + static_cast<std::ptrdiff_t>(n));
  };
  const auto chosen = out.action.size() + 1, described = out.distribution.size();
  const auto state = part(chosen + described, out.state.size());
  Method method{.name = "forward",
                .traced = "greedy_batch",
                .before_call = "",
                .inputs = identifiers(inputs),
                .given = identifiers(inputs),
                .outputs = outputs,
                .result = joined(part(0, chosen), state),
                .seed = "",
                .axes = inputs[0].dim()};
  module.define(script(method));
  if (described > 0) {
    method.name = "distribution";
    method.result = part(chosen, described);
    module.define(script(method));
  }
  if (!policy.can_sample()) return;
  policy.add_trace(module, "sampled_batch", /*sampled=*/true);
  const auto drawn = policy(policy.random_inputs(1, true), true);
  outputs.clear();
  for (std::size_t i = 0; i < drawn.all().size(); ++i) outputs.push_back(fmt::format("y{}", i));
  method.name = "sample";
  method.traced = "sampled_batch";
  method.seed = ", seed: int";
  method.before_call = fmt::format(
      "    generator = torch.Generator(device={0}.device)\n"
      "    generator.manual_seed(seed)\n"
      "    noise = torch.rand([{0}.size(0), {1}], generator=generator, device={0}.device)\n",
      method.inputs[0], policy.random_inputs(1, true).at("noise").size(1));
  method.given.emplace_back("noise");
  method.outputs = outputs;
  method.result = part(chosen + described, drawn.sample.size() + 1);
  method.result = joined(method.result, part(outputs.size() - out.state.size(), out.state.size()));
  module.define(script(method));
}

// The policy as a TorchScript archive. On a full disk, LibTorch's own file writer ends the program.
std::string torch_script(const ExportedPolicy& policy) {
  auto module = policy.attributes();
  add_methods(module, policy);
  policy.detach(module);
  std::ostringstream content;
  module.save(content);
  return std::move(content).str();
}

void add_bounds(nlohmann::ordered_json& entry, double low, double high) {
  if (std::isfinite(low)) entry["low"] = low;
  if (std::isfinite(high)) entry["high"] = high;
}

std::string type_name(at::ScalarType type) {
  for (const auto known : {DType::kUInt8, DType::kInt32, DType::kInt64, DType::kFloat32,
                           DType::kFloat64, DType::kBool})
    if (torch_dtype(known) == type) return name_of(known);
  return c10::toString(type);
}

nlohmann::ordered_json described(const std::string& name, const at::Tensor& tensor) {
  nlohmann::ordered_json shape = {"N"};
  for (std::int64_t i = 1; i < tensor.dim(); ++i) shape.push_back(tensor.size(i));
  return {{"name", name}, {"dtype", type_name(tensor.scalar_type())}, {"shape", shape}};
}

nlohmann::ordered_json described(const NamedTensors& tensors) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& [name, tensor] : tensors) all.push_back(described(name, tensor));
  return all;
}

}  // namespace

void export_policy(Agent& agent, const EnvSpec& env, const std::filesystem::path& file) {
  require(agent.device().is_cpu(), "the agent is on {}; move it to the CPU to export it",
          agent.device().str());
  // Blanks in a stack must stay zeros, but are indistinguishable among the numbers of a caller.
  for (const auto& [name, spec] : env.observation)
    require(spec.stack == 1 || !is_normalized(spec) || !normalizes(agent),
            "observation '{}' of {} is a stack of numbers that the agent normalizes; such a policy "
            "cannot be exported",
            name, env.id);
  const at::NoGradGuard no_grad;
  const ExportedPolicy policy(agent, env);
  std::string content;
  try {
    content = file.extension() == ".onnx" ? onnx(policy) : torch_script(policy);
  } catch (const c10::Error& e) {
    torch::jit::tracer::abandon();
    // Its text may continue with all elements of a tensor.
    throw Error("the policy cannot be exported: {}", one_line(e.what_without_backtrace(), 300));
  }
  write_file(file, content);
}

std::string describe_policy(Agent& agent, const Config& config, const EnvSpec& env) {
  const at::NoGradGuard no_grad;
  const ExportedPolicy policy(agent, env);
  const auto given = policy.random_inputs(1, false);
  const auto out = policy(given, false);
  auto inputs = described(given), outputs = described(out.action);
  for (std::size_t i = 0; i < env.observation.size(); ++i)
    add_bounds(inputs[i], env.observation[i].low, env.observation[i].high);
  for (std::size_t i = 0; i < env.action.size(); ++i) {
    const auto& action = env.action[i];
    if (action.kind == ActionSpec::Kind::kBox) add_bounds(outputs[i], action.low, action.high);
    if (!action.choices.empty()) outputs[i]["choices"] = action.choices;
  }
  for (const auto* more : {&out.value, &out.state})
    for (auto& entry : described(*more)) outputs.push_back(std::move(entry));
  nlohmann::ordered_json settings;
  const bool atari = config.env_id.starts_with("ALE/");
  for (const auto& [key, value, doc] : setting_docs(config))
    if (key.starts_with("env.") || (atari && key.starts_with("atari.")) ||
        key == "gymnasium.kwargs" || key == "gymnasium.wrappers")
      settings[key] = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  return nlohmann::ordered_json{{"shoal", kVersion},
                                {"env", env.id},
                                {"inputs", inputs},
                                {"outputs", outputs},
                                {"distribution", described(out.distribution)},
                                {"noise", agent.policy_noise()},
                                {"notices", env.notices},
                                {"settings", settings}}
             .dump(2) +
         "\n";
}

}  // namespace shoal
