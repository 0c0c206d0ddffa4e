#include "samplers/rollout_tensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>

#include <map>
#include <mutex>

#include "src/compute/accelerator.h"

namespace shoal {

namespace {

// The rows of several rollouts share an arena, whose memory is pinned once.
std::shared_ptr<void> pinned(const Arena& arena, const at::Device& device) {
  auto* const on = accelerator(device);
  if (on == nullptr) return nullptr;
  static std::mutex mutex;
  static std::map<const std::byte*, std::weak_ptr<void>> known;
  const std::scoped_lock lock(mutex);
  auto& pins = known[arena.memory().data()];
  auto found = pins.lock();
  const c10::DeviceGuard guard(device);
  if (!found) pins = found = on->pin(arena.memory());
  return found;
}

}  // namespace

RolloutTensors::RolloutTensors(const SharedRollout& s, at::Device on)
    : shared(&s), device(on), mirrored(!is_host(on)), pins(pinned(*s.arena, on)) {
  auto mirror = [&](const Arena::Field& field) -> Mirror {
    auto host = view(*s.arena, field);
    return {host, mirrored ? host.to(device, /*non_blocking=*/false, /*copy=*/true) : host};
  };
  auto mirrors = [&](const Named<Arena::Field>& fields) {
    Named<Mirror> out;
    for (const auto& [name, field] : fields) out.add(name, mirror(field));
    return out;
  };
  const auto& rows = s.rows;
  observation = mirrors(rows.observation);
  action = mirrors(rows.action);
  mask = mirrors(rows.mask);
  env_info = mirrors(rows.env_info);
  agent_info = mirrors(rows.agent_info);
  reward = mirror(rows.reward);
  terminated = mirror(rows.terminated);
  truncated = mirror(rows.truncated);
  is_first = mirror(rows.is_first);
  valid = mirror(rows.valid);
  for (const int i : {0, 1}) state[i] = mirrors(s.state[i]);
  for (const auto& [name, spec] : rows.spec().observation) {
    if (spec.stack == 1) continue;
    const auto pinned = at::TensorOptions().dtype(at::kLong).pinned_memory(!device.is_cpu());
    auto host = at::full({s.horizon + 1, rows.envs(), spec.stack}, -1, pinned);
    frame_index.add(name, {host, mirrored ? host.to(device, false, /*copy=*/true) : host});
  }
}

void RolloutTensors::upload(const Mirror& m, std::int64_t from, std::int64_t n) {
  if (!mirrored) return;
  const auto rows = m.host.narrow(0, from, n);
  m.device.narrow(0, from, n).copy_(rows, /*non_blocking=*/true);
  uploaded += static_cast<std::int64_t>(rows.nbytes());
}

void RolloutTensors::upload(const Mirror& m, std::int64_t from, std::int64_t n, const Range& envs) {
  if (!mirrored) return;
  const auto rows = [&](const at::Tensor& all) {
    return all.narrow(0, from, n).narrow(1, envs.first, envs.size());
  };
  const auto part = rows(m.host);
  rows(m.device).copy_(part, /*non_blocking=*/true);
  uploaded += static_cast<std::int64_t>(part.nbytes());
}

void RolloutTensors::download(const Mirror& m, std::int64_t row, const Range& envs) const {
  if (mirrored) download({m.host[row], m.device[row]}, envs);
}

void RolloutTensors::download(const Mirror& m, const Range& envs) const {
  if (!mirrored) return;
  part_of(m.host, envs).copy_(part_of(m.device, envs), /*non_blocking=*/pins != nullptr);
}

void RolloutTensors::enter(bool carried) {
  const auto n = shared->history + 1;
  const auto bring = [&](const Mirror& m) {
    if (carried)
      carry_over(m, shared->horizon, n);
    else
      upload(m, 0, n);
  };
  for (const auto* fields : {&observation, &action, &mask, &agent_info, &env_info})
    for (const auto& [name, m] : *fields) bring(m);
  for (const auto* m : {&reward, &terminated, &truncated, &is_first, &valid}) bring(*m);
}

// Copies the n rows from `from` on to the first n.
void RolloutTensors::carry_over(const Mirror& m, std::int64_t from, std::int64_t n) const {
  if (!mirrored) return;
  auto last = m.device.narrow(0, from, n);
  m.device.narrow(0, 0, n).copy_(from < n ? last.clone() : last);
}

void RolloutTensors::wait() const {
  const c10::DeviceGuard guard(device);
  if (auto* const on = accelerator(device)) on->wait();
}

// Goes back in time to the first frame of the episode; earlier ones are blank. A row that waits is
// blank, but for the one in which a worker died.
void RolloutTensors::stack_frames(std::int64_t t, const Range& envs, bool has_ends) {
  const auto B = shared->rows.envs();
  const auto* starts = is_first.host.const_data_ptr<bool>();
  const auto* ends = truncated.host.const_data_ptr<bool>();
  for (auto& [name, m] : frame_index) {
    const auto stack = m.host.size(2);
    auto* index = m.host.data_ptr<std::int64_t>() + (t * B + envs.first) * stack;
    for (auto b = envs.first; b < envs.last; ++b, index += stack) {
      auto frame = (shared->history + t) * B + b;
      bool blank = shared->waits(shared->history + t, b) && !(has_ends && ends[frame]);
      for (auto s = stack - 1; s >= 0; --s, frame -= B) {
        index[s] = blank ? -1 : frame;
        blank = blank || starts[frame];
      }
    }
  }
}

ActIn RolloutTensors::inputs(std::int64_t t, const Range& envs) const {
  const auto row = shared->history + t;
  const auto part = [&envs](const at::Tensor& all) { return part_of(all, envs); };
  const auto parts = [&](const Named<Mirror>& fields, std::int64_t at_row) {
    NamedTensors out;
    for (const auto& [name, m] : fields) out.add(name, part(m.device[at_row]));
    return out;
  };
  ActIn in;
  for (const auto& [name, m] : observation) {
    if (frame_index.contains(name))
      in.observation.add(name, {m.device.flatten(0, 1), part(frame_index.at(name).device[t])});
    else
      in.observation.add(name, {part(m.device[row]), {}});
  }
  in.mask = parts(mask, row);
  for (const auto& [name, m] : state[static_cast<std::size_t>(t % 2)])
    in.state.add(name, part(m.device));
  in.previous_action = parts(action, row - 1);
  in.previous_reward = part(reward.device[row - 1]);
  in.is_first = part(is_first.device[row]);
  return in;
}

void RolloutTensors::upload_stacks(std::int64_t t, std::int64_t n, const Range& envs) {
  for (const auto& [name, m] : frame_index) upload(m, t, n, envs);
}

void RolloutTensors::upload_inputs(std::int64_t t, std::int64_t n, const Range& envs) {
  if (!mirrored) return;
  const auto row = shared->history + t;
  upload_stacks(t, n, envs);
  for (const auto* fields : {&observation, &mask})
    for (const auto& [name, m] : *fields) upload(m, row, n, envs);
  upload(is_first, row, n, envs);
  upload(reward, row - 1, n, envs);
}

void RolloutTensors::blank_waiting(std::int64_t t, const Range& envs,
                                   const NamedTensors& tensors) const {
  if (!shared->may_wait) return;
  const auto is_valid = part_of(valid.host[shared->history + t], envs);
  if (is_valid.all().item<bool>()) return;
  const auto waits = is_valid.logical_not().to(device);
  for (const auto& [name, tensor] : tensors) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(tensor.dim()), 1);
    shape[0] = envs.size();
    tensor.masked_fill_(waits.view(shape), 0);
  }
}

void RolloutTensors::cut_short(std::int64_t t, const Range& envs) {
  const auto T = shared->horizon, now = shared->history + t;
  shared->cut_short(t, envs.first, envs.last);
  for (auto row = t; row < T; ++row) stack_frames(row, envs);
  if (!mirrored) return;
  upload_inputs(t, T - t, envs);
  for (const auto* fields : {&action, &agent_info})
    for (const auto& [name, m] : *fields) upload(m, now, T - t, envs);
  upload(reward, shared->history + T - 1, envs);
  if ((T - t) % 2 == 0) return;
  for (std::size_t i = 0; i < state[0].size(); ++i)
    part_of(state[static_cast<std::size_t>(T % 2)][i].device, envs)
        .copy_(part_of(state[static_cast<std::size_t>(t % 2)][i].device, envs));
}

}  // namespace shoal
