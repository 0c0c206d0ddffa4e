#include "src/app/bench_agents.h"

#include <ATen/ATen.h>

#include <vector>

#include "shoal/core/error.h"

namespace shoal::app {
namespace {

constexpr std::int64_t kTableRows = 1024;

std::vector<std::int64_t> with_lead(std::int64_t lead, const ArraySpec& spec) {
  std::vector<std::int64_t> shape = {lead};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return shape;
}

at::Tensor random_data(std::int64_t n, const ArraySpec& spec, at::Device device) {
  const auto type = torch_dtype(spec.dtype);
  const auto shape = with_lead(n, spec);
  const bool real = at::isFloatingType(type);
  return (real ? at::randn(shape) : at::randint(0, spec.dtype == DType::kBool ? 2 : 256, shape))
      .to(device, type);
}

Observed random_observation(std::int64_t n, const ArraySpec& spec, at::Device device) {
  if (spec.stack == 1) return {random_data(n, spec, device), {}};
  // Frame s of environment b is stored at s * n + b, as in a sampler's rows.
  const auto oldest_first = at::arange(spec.stack).mul(n).unsqueeze(0);
  return {.data = random_data(n * spec.stack, spec, device),
          .index = (at::arange(n).unsqueeze(1) + oldest_first).to(device)};
}

NamedTensors zeros(std::int64_t n, const NamedSpecs& specs, at::Device device) {
  NamedTensors tensors;
  for (const auto& [name, spec] : specs)
    tensors.add(name, at::zeros(with_lead(n, spec),
                                at::TensorOptions(device).dtype(torch_dtype(spec.dtype))));
  return tensors;
}

}  // namespace

TableAgent::TableAgent(const EnvSpec& spec, std::int64_t envs) {
  const bool one = spec.action.size() == 1 && spec.action[0].kind == ActionSpec::Kind::kDiscrete;
  require(one, "{}: the sampling benchmark needs an environment with one discrete action", spec.id);
  table_ = at::randint(0, spec.action[0].choices[0], {kTableRows, envs}, at::kLong);
}

void TableAgent::act(const ActIn& in, ActOut& out) {
  out.action[0].copy_(
      table_.select(0, in.noise.tick % kTableRows).narrow(0, 0, out.action[0].size(0)));
}

ActingShapes acting_shapes(const EnvSpec& env, const Agent& agent, std::int64_t envs) {
  const auto device = agent.device();
  ActingShapes shapes;
  for (const auto& [name, spec] : env.observation)
    shapes.in.observation.add(name, random_observation(envs, spec, device));
  NamedSpecs action;
  for (const auto& [name, spec] : env.action) action.add(name, spec.array());
  shapes.in.previous_action = zeros(envs, action, device);
  shapes.in.previous_reward = at::zeros({envs}, device);
  shapes.in.first = at::zeros({envs}, at::TensorOptions(device).dtype(at::kBool));
  shapes.in.state = zeros(envs, agent.spec().state, device);
  shapes.in.noise = {.seed = 1};
  shapes.out = {zeros(envs, action, device), zeros(envs, agent.spec().info, device),
                zeros(envs, agent.spec().state, device)};
  return shapes;
}

}  // namespace shoal::app
