#include "samplers/rollout_tensors.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include <map>
#include <mutex>

#include "src/compute/accelerator.h"

namespace shoal {

namespace {

// Rows of several rollouts share an arena, whose memory is told to the device once.
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
  const auto part_of = [&](const at::Tensor& all) {
    return all.narrow(0, from, n).narrow(1, envs.first, envs.size());
  };
  const auto part = part_of(m.host);
  part_of(m.device).copy_(part, /*non_blocking=*/true);
  uploaded += static_cast<std::int64_t>(part.nbytes());
}

void RolloutTensors::download(const Mirror& m, std::int64_t row, const Range& envs) const {
  if (mirrored) download({m.host[row], m.device[row]}, envs);
}

void RolloutTensors::download(const Mirror& m, const Range& envs) const {
  if (!mirrored) return;
  m.host.narrow(0, envs.first, envs.size())
      .copy_(m.device.narrow(0, envs.first, envs.size()), /*non_blocking=*/pins != nullptr);
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

// The first n rows become what those from `from` on are.
void RolloutTensors::carry_over(const Mirror& m, std::int64_t from, std::int64_t n) const {
  if (!mirrored) return;
  auto last = m.device.narrow(0, from, n);
  m.device.narrow(0, 0, n).copy_(from < n ? last.clone() : last);
}

void RolloutTensors::wait() const {
  const c10::DeviceGuard guard(device);
  if (auto* const on = accelerator(device)) on->wait();
}

// Going back in time until the episode's first one.
void RolloutTensors::stack_frames(std::int64_t t, const Range& envs) {
  const auto B = shared->rows.envs();
  const auto* starts = is_first.host.const_data_ptr<bool>();
  for (auto& [name, m] : frame_index) {
    const auto stack = m.host.size(2);
    auto* index = m.host.data_ptr<std::int64_t>() + (t * B + envs.first) * stack;
    for (auto b = envs.first; b < envs.last; ++b, index += stack) {
      auto frame = (shared->history + t) * B + b;
      bool blank = shared->waits(shared->history + t, b);
      for (auto s = stack - 1; s >= 0; --s, frame -= B) {
        index[s] = blank ? -1 : frame;
        blank = blank || starts[frame];
      }
    }
  }
}

}  // namespace shoal
