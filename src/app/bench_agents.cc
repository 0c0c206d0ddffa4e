#include "src/app/bench_agents.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

namespace shoal::app {
namespace {

constexpr std::int64_t kTableRows = 1024;

std::vector<std::int64_t> with_lead(std::int64_t lead, const ArraySpec& spec) {
  std::vector<std::int64_t> shape = {lead};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return shape;
}

NamedTensors zeros(std::int64_t n, const NamedSpecs& specs, at::Device device) {
  NamedTensors tensors;
  for (const auto& [name, spec] : specs)
    tensors.add(name, at::zeros(with_lead(n, spec),
                                at::TensorOptions(device).dtype(torch_dtype(spec.dtype))));
  return tensors;
}

}  // namespace

at::Tensor random_actions(const ActionSpec& spec, std::int64_t T, std::int64_t B) {
  const auto array = spec.array();
  auto shape = with_lead(B, array);
  shape.insert(shape.begin(), T);
  const double low = spec.bounded() ? spec.low : -1, high = spec.bounded() ? spec.high : 1;
  if (spec.kind == ActionSpec::Kind::kBox) return at::rand(shape) * (high - low) + low;
  if (spec.kind == ActionSpec::Kind::kMultiBinary) return at::rand(shape).lt(0.5);
  if (spec.kind == ActionSpec::Kind::kDiscrete)
    return at::randint(0, spec.choices[0], shape, at::kLong);
  std::vector<at::Tensor> parts;
  for (const auto n : spec.choices) parts.push_back(at::randint(0, n, {T, B, 1}, at::kLong));
  return at::cat(parts, 2);
}

TableAgent::TableAgent(const EnvSpec& spec, std::int64_t envs) {
  for (const auto& [name, action] : spec.action)
    table_.add(name, random_actions(action, kTableRows, envs));
}

void TableAgent::act(const ActIn& in, ActOut& out) {
  for (const auto& [name, table] : table_) {
    auto& action = out.action.at(name);
    action.copy_(table.select(0, in.noise.tick % kTableRows).narrow(0, 0, action.size(0)));
  }
}

ActingReplay acting_replay(const Samples& samples, const EnvSpec& env, const Agent& agent) {
  const auto device = agent.device();
  const auto B = samples.B;
  ActingReplay replay;
  replay.observations.resize(static_cast<std::size_t>(samples.T));
  for (const auto& [name, o] : samples.observed) {
    const Observed kept{o.data.clone(), o.stacked() ? o.index.clone() : o.index};
    for (std::int64_t t = 0; t < samples.T; ++t)
      replay.observations[static_cast<std::size_t>(t)].add(name, kept.narrow(t * B, B));
  }
  NamedSpecs action;
  for (const auto& [name, spec] : env.action) action.add(name, spec.array());
  replay.in.previous_action = zeros(B, action, device);
  replay.in.previous_reward = at::zeros({B}, device);
  replay.in.first = at::zeros({B}, at::TensorOptions(device).dtype(at::kBool));
  replay.in.state = zeros(B, agent.spec().state, device);
  replay.in.noise = {.seed = 1};
  replay.out = {zeros(B, action, device), zeros(B, agent.spec().info, device),
                zeros(B, agent.spec().state, device)};
  return replay;
}

}  // namespace shoal::app
