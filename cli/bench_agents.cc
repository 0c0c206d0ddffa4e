#include "cli/bench_agents.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace shoal::cli {
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
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const auto& table = table_[i];
    const auto& action = out.action[i];
    const auto row = static_cast<std::size_t>(in.noise.tick % kTableRows);
    std::memcpy(action.data_ptr(),
                static_cast<const std::byte*>(table.const_data_ptr()) +
                    row * (table.nbytes() / static_cast<std::size_t>(kTableRows)),
                action.nbytes());
  }
}

ActingReplay acting_replay(const Samples& samples, const Range& envs, const EnvSpec& env,
                           const Agent& agent) {
  const auto device = agent.device();
  const auto B = envs.size();
  ActingReplay replay;
  replay.observations.resize(static_cast<std::size_t>(samples.T));
  for (const auto& [name, o] : samples.observed) {
    const Observed kept{o.data.clone(), o.stacked() ? o.index.clone() : o.index};
    for (std::int64_t t = 0; t < samples.T; ++t)
      replay.observations[static_cast<std::size_t>(t)].add(
          name, kept.narrow(t * samples.B + envs.first, B));
  }
  NamedSpecs action;
  for (const auto& [name, spec] : env.action) action.add(name, spec.array());
  replay.in.previous_action = zeros(B, action, device);
  replay.in.previous_reward = at::zeros({B}, device);
  replay.in.is_first = at::zeros({B}, at::TensorOptions(device).dtype(at::kBool));
  replay.in.state = zeros(B, agent.spec().state, device);
  replay.in.noise = {.seed = 1, .first_env = envs.first};
  replay.out = {zeros(B, action, device), zeros(B, agent.spec().info, device),
                zeros(B, agent.spec().state, device)};
  return replay;
}

}  // namespace shoal::cli
