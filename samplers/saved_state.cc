#include "samplers/saved_state.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cstring>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

namespace {

// The fields of the first rows that the next rollout reads.
NamedTensors rows_to_keep(const SharedRollout& shared) {
  return first_rows(shared.rows, shared.history + 1);
}

}  // namespace

void save_rows(const SharedRollout& shared, NamedTensors& to) {
  for (const auto& [name, tensor] : rows_to_keep(shared)) to.add(name, tensor.clone());
  save_statistics({&shared}, to);
}

void restore_rows(const SharedRollout& shared, const NamedTensors& from) {
  auto targets = rows_to_keep(shared);
  for (const auto& [name, field] : shared.state[0])
    targets.add("state/" + name, view(*shared.arena, field));
  restore(from, "", targets);
  restore_statistics({&shared}, from);
}

namespace {

std::span<std::byte> row(const at::Tensor& bytes, std::int64_t i) {
  const auto each = static_cast<std::size_t>(bytes.size(1));
  return {static_cast<std::byte*>(bytes.data_ptr()) + static_cast<std::size_t>(i) * each, each};
}

at::Tensor statistics_like(const std::vector<const SharedRollout*>& rows) {
  std::int64_t envs = 0;
  for (const auto* each : rows) envs += each->rows.envs();
  return at::zeros({envs, static_cast<std::int64_t>(rows[0]->statistics_bytes)}, at::kByte);
}

}  // namespace

void save_statistics(const std::vector<const SharedRollout*>& rows, NamedTensors& to) {
  const auto all = statistics_like(rows);
  if (all.numel() == 0) return;
  std::int64_t i = 0;
  for (const auto* each : rows)
    for (std::int64_t b = 0; b < each->rows.envs(); ++b) each->read_statistics(b, row(all, i++));
  to.add("statistics", all);
}

void restore_statistics(const std::vector<const SharedRollout*>& rows, const NamedTensors& from) {
  const auto all = statistics_like(rows);
  if (all.numel() == 0 || !from.contains("statistics")) return;
  restore(from, "", {{"statistics", all}});
  std::int64_t i = 0;
  for (const auto* each : rows)
    for (std::int64_t b = 0; b < each->rows.envs(); ++b) each->keep_statistics(b, row(all, i++));
}

void add_env_states(const std::vector<std::byte>& message, const Range& envs,
                    std::int64_t first_env, NamedTensors& to) {
  const auto* from = message.data();
  for (auto b = envs.first; b < envs.last; ++b) {
    std::size_t bytes = 0;
    std::memcpy(&bytes, from, sizeof bytes);
    from += sizeof bytes;
    auto state = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
    if (bytes > 0) std::memcpy(state.data_ptr(), from, bytes);
    from += bytes;
    to.add("env/" + std::to_string(first_env + b), state);
  }
}

void take_env_states(const Mailbox& mailbox, const SamplerOptions& o, NamedTensors& to) {
  for (int g = 0; g < o.groups; ++g) {
    for (int w = 0; w < o.workers; ++w) {
      const auto envs = worker_range(o.envs, o.groups, g, o.workers, w);
      if (!envs.empty()) add_env_states(mailbox.take(g * o.workers + w), envs, o.first_env, to);
    }
  }
}

std::vector<std::span<const std::byte>> env_states(const NamedTensors& from, std::int64_t first_env,
                                                   std::int64_t envs) {
  std::vector<std::span<const std::byte>> states(static_cast<std::size_t>(first_env));
  for (auto b = first_env; b < first_env + envs; ++b) {
    const auto& state = saved(from, "env/" + std::to_string(b));
    states.emplace_back(static_cast<const std::byte*>(state.const_data_ptr()), state.nbytes());
  }
  return states;
}

std::int64_t first_tick(const NamedTensors& from) {
  return saved(from, "clock").flatten()[0].item<std::int64_t>();
}

namespace {

// The axis of the environments; -1: none.
int axis_of_envs(const std::string& name) {
  return name.starts_with("rows/")                                                         ? 1
         : name.starts_with("state/") || name == "episode_numbers" || name == "statistics" ? 0
                                                                                           : -1;
}

}  // namespace

NamedTensors join_saved(const std::vector<NamedTensors>& all) {
  NamedTensors out;
  for (const auto& part : all) {
    for (const auto& [name, tensor] : part) {
      if (out.contains(name)) continue;
      std::vector<at::Tensor> each;
      if (!name.starts_with("env/"))
        for (const auto& one : all) each.push_back(saved(one, name));
      const auto axis = axis_of_envs(name);
      // Asynchronous samplers are at different ticks. The latest is kept: no tick may be used
      // twice.
      out.add(name, each.empty() ? tensor
                    : axis >= 0  ? at::cat(each, axis)
                                 : at::stack(each).amax(0));
    }
  }
  return out;
}

NamedTensors part_of_saved(const NamedTensors& all, std::int64_t first_env, std::int64_t envs) {
  NamedTensors out;
  for (const auto& [name, tensor] : all) {
    const auto axis = axis_of_envs(name);
    require(axis < 0 || tensor.size(axis) >= first_env + envs,
            "'{}' holds {} environments, expected at least {}", name,
            axis < 0 ? 0 : tensor.size(axis), first_env + envs);
    out.add(name, axis < 0 ? tensor : tensor.narrow(axis, first_env, envs));
  }
  return out;
}

}  // namespace shoal
